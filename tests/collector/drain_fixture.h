#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "collector/collector.h"
#include "tests/collector/stored_events.h"
#include "tests/support/fake_session.h"
#include "tests/support/temp_folder.h"

namespace poolscope {

// Fake sessions in a run folder, a collector over it, and its store.
class Drain : public ::testing::Test {
 protected:
  Drain() {
    options_.store = files_.path() / "run.db";
    options_.run_folders = {folder_.path()};
    options_.owners = {static_cast<uint32_t>(geteuid())};
  }

  FakeSession::Options Session(int number = 1) {
    FakeSession::Options options;
    options.folder = folder_.path();
    options.session_id = std::string(31, '0') + std::to_string(number);
    return options;
  }
  std::unique_ptr<Collector> Open() {
    auto collector = Collector::Open(options_);
    EXPECT_TRUE(collector.ok()) << collector.error().message;
    return collector.ok() ? std::move(*collector) : nullptr;
  }
  uint64_t DrainOnce(Collector& collector) {
    const auto drained = collector.Drain();
    EXPECT_TRUE(drained.ok()) << drained.error().message;
    return drained.ok() ? drained->events : 0;
  }
  std::vector<StoredEvent> Stored() { return ReadAll(options_.store); }
  Result<Store> OpenStore() { return Store::Open(options_.store, Store::Mode::kRead); }

  TempFolder folder_{true};
  TempFolder files_;
  CollectorOptions options_;
};

}  // namespace poolscope
