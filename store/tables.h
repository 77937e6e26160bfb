#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "store/rows.h"

// One description for each row type: from it come the table's DDL, the statements that write and
// read it, and its section in docs/store.md. `Describe(visit, row)` visits the columns in the order
// of the table: visit.Key(name, field, meaning) for those of the primary key, visit(name, field,
// meaning) for the others. "ns" without more is a time, as in trace/event.h.
namespace poolscope {

template <typename Row>
struct Table;

// "busy_ns": the column of a state, or of a stage.
std::string_view StateColumn(size_t state);
std::string_view StageColumn(size_t stage);
// "retries": the column of a FaultKind.
std::string_view FaultColumn(size_t fault);

inline constexpr char kRunKey[] = "run";
inline constexpr char kWindowStart[] = "start of the window";
inline constexpr char kWindowLength[] = "length of the window";

template <>
struct Table<RunRow> {
  static constexpr char kName[] = "run";
  static constexpr char kMeaning[] = "one execution of a job, over all its processes";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, "32 hex digits");
    visit("host", row.host, "of its first process");
    visit("command", row.command, "of its first process");
    visit("start_ns", row.start_ns, "start of its first process");
    visit("end_ns", row.end_ns, "newest time known");
    visit("ended", row.ended, "1: every process has ended");
  }
};

template <>
struct Table<ProcessRow> {
  static constexpr char kName[] = "process";
  static constexpr char kMeaning[] = "one process under the agent";
  static void Describe(auto& visit, auto& row) {
    visit.Key("session_id", row.session_id, "32 hex digits, of its session file");
    visit("run_id", row.run_id, kRunKey);
    visit("host", row.host, "host name");
    visit("command", row.command, "command line");
    visit("pid", row.pid, "in its own pid namespace");
    visit("parent_pid", row.parent_pid, "likewise");
    visit("start_ns", row.start_ns, "start of the session");
    visit("end_ns", row.end_ns, "0 while it lives");
    visit("end_reason", row.end_reason, "'', 'exited' or 'killed' (vanished without an exit)");
  }
};

template <>
struct Table<ProcessFactRow> {
  static constexpr char kName[] = "process_fact";
  static constexpr char kMeaning[] = "what is known of a process beside what it recorded";
  static void Describe(auto& visit, auto& row) {
    visit.Key("session_id", row.session_id, "its process");
    visit.Key("key", row.key,
              "'env.NAME': a variable of its environment; 'lane.TID': a stream or communicator; "
              "'lane_mapped.TID': a mapping gave it to its worker, whoever launches; "
              "'device.NUMBER': UUID of the device that it calls so; 'category.NUMBER.DOMAIN': its "
              "name; 'worker.POOL.PART': the number that a mapping "
              "gave");
    visit("value", row.value, "as text");
  }
};

template <>
struct Table<SymbolRow> {
  static constexpr char kName[] = "symbol";
  static constexpr char kMeaning[] = "names of C++ as compilers write them";
  static void Describe(auto& visit, auto& row) {
    visit.Key("string_id", row.string_id, "what a person reads, which events carry");
    visit.Key("mangled", row.mangled, "as the job gave it");
  }
};

template <>
struct Table<ThreadRow> {
  static constexpr char kName[] = "thread";
  static constexpr char kMeaning[] = "one thread that recorded something";
  static void Describe(auto& visit, auto& row) {
    visit.Key("thread_id", row.thread_id, "local to the store");
    visit("session_id", row.session_id, "its process");
    visit("tid", row.tid, "kernel thread id");
    visit("name", row.name, "name it was given, else the system's for it");
    visit("pool", row.pool, "'' where it does no pool's work");
    visit("worker_index", row.worker_index, "in its pool, -1 where none");
  }
};

template <>
struct Table<PoolRow> {
  static constexpr char kName[] = "pool";
  static constexpr char kMeaning[] = "a named set of workers";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("pool", row.pool, "name");
    visit("role", row.role, "compute, update, rollout, trainer or other");
    visit("workers", row.workers, "how many were seen");
  }
};

template <>
struct Table<WorkerRow> {
  static constexpr char kName[] = "worker";
  static constexpr char kMeaning[] = "one lane of execution that does a pool's work";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("pool", row.pool, "name");
    visit.Key("worker_index", row.worker_index, "in its pool, from 0");
    visit("session_id", row.session_id, "its process");
    visit("device", row.device, "'cpu' where not known");
  }
};

template <>
struct Table<LinkRow> {
  static constexpr char kName[] = "link";
  static constexpr char kMeaning[] = "a directed channel from one pool to another";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("link", row.link, "name");
    visit("from_pool", row.from_pool, "sends");
    visit("to_pool", row.to_pool, "receives");
    visit("capacity", row.capacity, "messages its buffers hold, 0 where not known");
    visit("lanes", row.lanes, "messages that may be on the wire at once");
  }
};

template <>
struct Table<SettingRow> {
  static constexpr char kName[] = "setting";
  static constexpr char kMeaning[] = "knobs and facts that the job told";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("key", row.key, "such as lag_bound");
    visit("value", row.value, "as told");
  }
};

template <>
struct Table<TrackRow> {
  static constexpr char kName[] = "track";
  static constexpr char kMeaning[] = "one thread's ranges, its marks, or one of its counters";
  static void Describe(auto& visit, auto& row) {
    visit.Key("track_id", row.track_id, "local to the store");
    visit("run_id", row.run_id, kRunKey);
    visit("thread_id", row.thread_id, "its thread");
    visit("kind", row.kind, "1 ranges, 2 marks, 3 counter");
    visit("counter", row.counter, "string id of the counter's name, else 0");
  }
};

template <>
struct Table<StepRow> {
  static constexpr char kName[] = "step";
  static constexpr char kMeaning[] = "one optimizer update";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("step", row.step, "number, from 0");
    visit("end_ns", row.end_ns, "when the update was made");
    visit("version", row.version, "of the weights that it made");
    visit("tokens", row.tokens, "that it accepted");
    visit("micro_batches", row.micro_batches, "that it accepted");
    visit("loss", row.loss, "training loss, NULL where not known");
  }
};

template <>
struct Table<WorkerWindowRow> {
  static constexpr char kName[] = "worker_window";
  static constexpr char kMeaning[] =
      "how one worker spent one window, or the part of it that it was there; the states add up "
      "to it";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("start_ns", row.start_ns, kWindowStart);
    visit.Key("pool", row.pool, "of the worker");
    visit.Key("worker_index", row.worker_index, "in its pool");
    visit("window_ns", row.window_ns, kWindowLength);
    for (size_t state = 0; state < row.state_ns.size(); ++state) {
      visit(StateColumn(state), row.state_ns[state], "time in that state");
    }
  }
};

template <>
struct Table<WorkerLinkWindowRow> {
  static constexpr char kName[] = "worker_link_window";
  static constexpr char kMeaning[] = "what one worker had to do with one link in one window";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("start_ns", row.start_ns, kWindowStart);
    visit.Key("pool", row.pool, "of the worker");
    visit.Key("worker_index", row.worker_index, "in its pool");
    visit.Key("link", row.link, "name");
    visit("window_ns", row.window_ns, kWindowLength);
    visit("blocked_ns", row.blocked_ns, "its buffer was full");
    visit("wait_ns", row.wait_ns, "waited for it, the sum of the next six");
    visit("upstream_busy_ns", row.upstream_busy_ns, "the producer was still computing");
    visit("queued_ns", row.queued_ns, "the message was queued");
    visit("encode_ns", row.encode_ns, "the message was being encoded");
    visit("wire_ns", row.wire_ns, "the message was on the wire");
    visit("decode_ns", row.decode_ns, "the message was being decoded");
    visit("unattributed_ns", row.unattributed_ns, "the message is not known (yet)");
    visit("traffic_ns", row.traffic_ns, "union of its own encode, wire and decode time");
  }
};

template <>
struct Table<PoolWindowRow> {
  static constexpr char kName[] = "pool_window";
  static constexpr char kMeaning[] = "one pool in one window";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("start_ns", row.start_ns, kWindowStart);
    visit.Key("pool", row.pool, "name");
    visit("window_ns", row.window_ns, kWindowLength);
    visit("workers", row.workers, "in the pool");
    visit("busy_ratio", row.busy_ratio, "mean over workers, 0 to 1");
  }
};

template <>
struct Table<LinkWindowRow> {
  static constexpr char kName[] = "link_window";
  static constexpr char kMeaning[] = "one link in one window";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("start_ns", row.start_ns, kWindowStart);
    visit.Key("link", row.link, "name");
    visit("window_ns", row.window_ns, kWindowLength);
    visit("transfers", row.transfers, "whose wire stage ended in the window");
    visit("raw_bytes", row.raw_bytes, "before encoding, counted at the sender");
    visit("wire_bytes", row.wire_bytes, "what crossed the wire, what was sent again included");
    visit("depth_mean", row.depth_mean, "messages in its buffers, time-weighted");
    visit("depth_max", row.depth_max, "messages");
    visit("capacity", row.capacity, "messages, 0 where not known");
    visit("discarded", row.discarded, "messages thrown away");
    visit(FaultColumn(0), row.faults[0], "parts of messages that were sent again");
    visit(FaultColumn(1), row.faults[1], "parts that arrived damaged");
    visit(FaultColumn(2), row.faults[2], "parts that arrived once more");
    visit(FaultColumn(3), row.faults[3], "messages that did not arrive (best effort)");
    for (size_t stage = 0; stage < row.stage_ns.size(); ++stage) {
      visit(StageColumn(stage), row.stage_ns[stage], "sum over transfers");
    }
    visit("traffic_share", row.traffic_share, "mean over the sending workers, 0 to 1");
    visit("exposed_share", row.exposed_share, "mean over the workers of both ends, 0 to 1");
  }
};

template <>
struct Table<VersionWindowRow> {
  static constexpr char kName[] = "version_window";
  static constexpr char kMeaning[] = "versions and version lag in one window";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("start_ns", row.start_ns, kWindowStart);
    visit("window_ns", row.window_ns, kWindowLength);
    visit("version", row.version, "newest at the end of the window");
    visit("applied", row.applied, "messages applied");
    visit("lag_sum", row.lag_sum, "over them, in optimizer updates");
    visit("lag_max", row.lag_max, "in optimizer updates");
  }
};

template <>
struct Table<CollectiveWindowRow> {
  static constexpr char kName[] = "collective_window";
  static constexpr char kMeaning[] =
      "NCCL's operations of one function on one communicator that ended in one window; bus "
      "bandwidth is bus_bytes / wire_ns";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("start_ns", row.start_ns, kWindowStart);
    visit.Key("communicator", row.communicator, "its hash, 16 hex digits");
    visit.Key("function", row.function, "such as AllReduce; SendRecv for sends and receives");
    visit("window_ns", row.window_ns, kWindowLength);
    visit("pools", row.pools, "of its ranks, such as compute+update; '' not known");
    visit("ranks", row.ranks, "of the communicator, 2 for SendRecv");
    visit("operations", row.operations, "how many");
    visit("bytes", row.bytes, "sum of their sizes, all ranks' buffers where each has a part");
    visit("bus_bytes", row.bus_bytes, "the same times nccl-tests' factor, where times are known");
    visit("wire_ns", row.wire_ns, "sum, last rank's start to last one's end (inferred)");
    visit("wait_ns", row.wait_ns, "sum over ranks, waiting for the last one (inferred)");
  }
};

template <>
struct Table<DeviceWindowRow> {
  static constexpr char kName[] = "device_window";
  static constexpr char kMeaning[] =
      "what a host's device did in one window, by each source; NULL where that does not say";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("start_ns", row.start_ns, kWindowStart);
    visit.Key("host", row.host, "host name");
    visit.Key("device", row.device,
              "NVML's index, by PCI address; of one that NVML does not know, its process's "
              "number where that is free");
    visit.Key("source", row.source,
              "nvml, or pm_sampling: the mean of what the hardware sampled (docs/cupti.md)");
    visit("window_ns", row.window_ns, kWindowLength);
    visit("uuid", row.uuid, "of the device, on every host another; '' not known");
    visit("name", row.name, "of the product");
    visit(
        "sm_ratio", row.sm_ratio,
        "nvml: of time in which a kernel ran; pm_sampling: of cycles in which a multiprocessor was "
        "active");
    visit(
        "dram_ratio", row.dram_ratio,
        "nvml: of time in which its memory was read or written; pm_sampling: throughput over peak");
    visit("memory_used_bytes", row.memory_used_bytes, "of its memory, by all processes");
    visit("memory_bytes", row.memory_bytes, "of its memory in all");
    visit("sm_hertz", row.sm_hertz, "clock of its multiprocessors");
    visit("memory_hertz", row.memory_hertz, "clock of its memory");
    visit("pcie_sent_bytes_per_second", row.pcie_sent_bytes_per_second,
          "nvml: over 20 ms of the window");
    visit("pcie_received_bytes_per_second", row.pcie_received_bytes_per_second, "likewise");
    visit("nvlink_sent_bytes", row.nvlink_sent_bytes,
          "over all its links, nvml: since the sample before");
    visit("nvlink_received_bytes", row.nvlink_received_bytes, "likewise");
    visit("tensor_ratio", row.tensor_ratio, "of cycles in which tensor cores were active");
  }
};

template <>
struct Table<EventLossRow> {
  static constexpr char kName[] = "event_loss";
  static constexpr char kMeaning[] = "events known to be missing";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("session_id", row.session_id, "process, '' where it has none");
    visit.Key("cause", row.cause, "such as ring_full");
    visit.Key("place", row.place,
              "session, thread 1234, collector, or process 1234: why its agent is off");
    visit("events", row.events, "how many, NULL where not known");
    visit("first_ns", row.first_ns, "the first of them");
    visit("last_ns", row.last_ns, "the last of them");
  }
};

template <>
struct Table<OpenRangeRow> {
  static constexpr char kName[] = "open_range";
  static constexpr char kMeaning[] = "ranges that were open when their process died";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("session_id", row.session_id, "process");
    visit.Key("tid", row.tid, "kernel thread id");
    visit.Key("name", row.name, "of the range");
    visit.Key("start_ns", row.start_ns, "start of the range");
    visit("category", row.category, "as in event");
    visit("seen_ns", row.seen_ns, "last time known");
  }
};

template <>
struct Table<FindingRow> {
  static constexpr char kName[] = "finding";
  static constexpr char kMeaning[] = "what a rule of the advisor concluded";
  static void Describe(auto& visit, auto& row) {
    visit.Key("run_id", row.run_id, kRunKey);
    visit.Key("rule", row.rule, "name");
    visit.Key("subject", row.subject, "pool or link");
    visit.Key("first_ns", row.first_ns, "holds since");
    visit("severity", row.severity, "note, warning or critical");
    visit("last_ns", row.last_ns, "last time it held");
    visit("active", row.active, "1: holds now");
    visit("json", row.json, "as in the report's findings[]");
  }
};

template <>
struct Table<CursorRow> {
  static constexpr char kName[] = "cursor";
  static constexpr char kMeaning[] = "how far a session's rings are stored";
  static void Describe(auto& visit, auto& row) {
    visit.Key("session_id", row.session_id, "process");
    visit.Key("slot", row.slot, "thread slot of the session");
    visit("incarnation", row.incarnation, "which thread had the slot");
    visit("read_position", row.read_position, "bytes of its ring that are stored");
  }
};

// Calls `each(std::type_identity<Row>{})` for every row type, in the order of the schema.
void ForEachTable(auto each) {
  auto all = [&]<typename... Rows>() { (each(std::type_identity<Rows>{}), ...); };
  all.template
  operator()<RunRow, ProcessRow, ProcessFactRow, SymbolRow, ThreadRow, PoolRow, WorkerRow, LinkRow,
             SettingRow, TrackRow, StepRow, WorkerWindowRow, WorkerLinkWindowRow, PoolWindowRow,
             LinkWindowRow, VersionWindowRow, CollectiveWindowRow, DeviceWindowRow, EventLossRow,
             OpenRangeRow, FindingRow, CursorRow>();
}

}  // namespace poolscope
