#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collector/mapping.h"
#include "collector/process_facts.h"
#include "store/store.h"

namespace poolscope {

// What one run recorded, as mappings look at it.
struct Seen {
  struct Process {
    ProcessRow row;
    ProcessFacts facts;
  };
  struct Thread {
    ThreadRow row;
    const Process* process = nullptr;
    std::optional<Lane> lane;
    int64_t events = 0;
    int64_t ranges_ns = 0;   // sum over its ranges
    bool annotated = false;  // it records events of annotate.h

    ThreadFacts facts() const { return {row.name, process->facts, lane}; }
    // "trainer" (pid 12), or the number where it has no name.
    std::string Title() const;
  };
  struct Range {  // all events of a kind on one thread
    std::string domain, category, name;
    const Thread* thread = nullptr;
    int64_t events = 0;
    int64_t total_ns = 0;  // 0: marks
    RangeFacts facts(std::string_view pool) const;
  };

  struct Counter {
    std::string domain, name;
    int64_t samples = 0;
  };

  RunRow run;
  std::vector<LinkRow> links;
  std::map<std::string, Process> processes;  // by session
  std::map<int64_t, Thread> threads;         // by the store's id
  std::vector<Counter> counters;             // but for annotated ones
  std::vector<Range> ranges;  // ranges and marks, but for annotated ones; most time first
};

// Decodes every event of the run. Error: no such run, unreadable store.
Result<Seen> ReadSeen(const Store& store, const std::string& run);

}  // namespace poolscope
