// Who has the optimizer's state, and where it lies: neither changes what is learnt.
#include "reference-trainer/model/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <numeric>

#include "reference-trainer/model/shard_layout.h"
#include "reference-trainer/options.h"
#include "reference-trainer/run.h"
#include "tests/reference-trainer/text.h"

namespace poolscope::trainer {
namespace {

constexpr GptShape kShape{3, 16, 4, 16, false};

Options Small() {
  Options options;
  options.model = {kShape.layers, kShape.width, kShape.heads, kShape.context, 2};
  options.steps = 30;
  return options;
}

std::vector<double> Losses(const Options& options) {
  std::vector<double> losses;
  const std::string failure = Train(
      options, &Text(), [&](const StepRecord& record) { losses.push_back(record.loss); },
      [] { return false; });
  EXPECT_EQ(failure, "");
  return losses;
}

size_t OwnerOf(const std::vector<Ranges>& shards, size_t parameter) {
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    for (const Part& part : shards[shard]) {
      if (part.begin <= parameter && parameter < part.end) return shard;
    }
  }
  return SIZE_MAX;
}

TEST(ShardLayout, OfAnyKindAndCount_CoversEachParameterOnce) {
  const size_t size = Parameters(kShape).size();
  for (const auto layout : {ShardLayout::kFlat, ShardLayout::kLayer, ShardLayout::kHead}) {
    for (size_t count = 1; count <= std::min<size_t>(13, MostShards(layout, kShape)); ++count) {
      std::vector<int> owners(size, 0);
      for (const Ranges& ranges : LayOut(layout, kShape, count)) {
        ASSERT_GT(SizeOf(ranges), 0u);
        size_t before = 0;
        for (const Part& part : ranges) {
          ASSERT_GE(part.begin, before);
          ASSERT_LT(part.begin, part.end);
          before = part.end;
          for (size_t i = part.begin; i < part.end; ++i) ++owners[i];
        }
      }
      EXPECT_THAT(owners, testing::Each(1)) << ShardLayoutName(layout) << " " << count;
    }
  }
}

TEST(ShardLayout, FlatAndHead_AreOfOneSize) {
  for (const auto layout : {ShardLayout::kFlat, ShardLayout::kHead}) {
    for (const size_t count : {2, 3, 5, 12, 13}) {
      size_t least = SIZE_MAX, most = 0;
      for (const Ranges& ranges : LayOut(layout, kShape, count)) {
        least = std::min(least, SizeOf(ranges));
        most = std::max(most, SizeOf(ranges));
      }
      EXPECT_LE(most - least, 1u) << ShardLayoutName(layout) << " " << count;
    }
  }
}

TEST(ShardLayout, ByLayer_KeepsLayersWhole) {
  const Parameters at(kShape);
  const auto shards = LayOut(ShardLayout::kLayer, kShape, 4);
  for (size_t layer = 0; layer < kShape.layers; ++layer) {
    const size_t begin = at.norm1_gain + layer * at.layer_stride;
    const size_t owner = OwnerOf(shards, begin);
    for (size_t i = begin; i < begin + at.layer_stride; ++i) ASSERT_EQ(OwnerOf(shards, i), owner);
  }
}

TEST(ShardLayout, ByHead_KeepsTheRowsAndColumnsOfAHeadTogether) {
  const Parameters at(kShape);
  const size_t width = kShape.width, own = width / kShape.heads;
  const auto shards = LayOut(ShardLayout::kHead, kShape, 5);
  std::vector<size_t> heads_of(5, 0);
  for (size_t layer = 0; layer < kShape.layers; ++layer) {
    for (size_t head = 0; head < kShape.heads; ++head) {
      const size_t shift = layer * at.layer_stride;
      const size_t owner = OwnerOf(shards, shift + at.qkv_weight + head * own * width);
      ++heads_of[owner];
      for (size_t which = 0; which < 3; ++which) {
        for (size_t row = which * width + head * own; row < which * width + (head + 1) * own;
             ++row) {
          EXPECT_EQ(OwnerOf(shards, shift + at.qkv_bias + row), owner);
          for (size_t column = 0; column < width; ++column) {
            EXPECT_EQ(OwnerOf(shards, shift + at.qkv_weight + row * width + column), owner);
          }
        }
      }
      for (size_t row = 0; row < width; ++row) {
        for (size_t column = head * own; column < (head + 1) * own; ++column) {
          EXPECT_EQ(OwnerOf(shards, shift + at.projection_weight + row * width + column), owner);
        }
      }
    }
  }
  EXPECT_THAT(heads_of, testing::Each(testing::AllOf(testing::Ge(2u), testing::Le(3u))));
}

TEST(OptimizerState, AnyLayoutOffloadAndWorkers_HaveTheSameCurveToTheBit) {
  const std::vector<double> expected = Losses(Small());
  ASSERT_EQ(expected.size(), 30u);
  EXPECT_LT(expected.back(), 0.9 * expected.front());
  for (const auto layout : {ShardLayout::kFlat, ShardLayout::kLayer, ShardLayout::kHead}) {
    for (const auto offload : {Offload::kNone, Offload::kHost, Offload::kFile}) {
      for (const uint64_t workers : {1, 2, 5}) {
        Options options = Small();
        options.update_workers = workers;
        options.state.layout = layout;
        options.state.offload = {offload, workers == 2 ? 0.4 : 0.0, testing::TempDir()};
        EXPECT_EQ(Losses(options), expected)
            << ShardLayoutName(layout) << " " << OffloadName(offload) << " " << workers;
      }
    }
  }
}

TEST(OptimizerState, OffloadedAndMonolithic_HasTheSameCurveToTheBit) {
  Options options = Small();
  options.mode = Mode::kMonolithic;
  const std::vector<double> expected = Losses(options);
  options.state.offload = {Offload::kFile, 0.25, testing::TempDir()};
  EXPECT_EQ(Losses(options), expected);
}

TEST(OptimizerState, Sizes_AreSixteenBytesAParameterOverAllWorkers) {
  for (const double resident : {0.0, 0.3, 1.0}) {
    Options options = Small();
    options.update_workers = 3;
    options.state.offload = {Offload::kHost, resident, ""};
    uint64_t total = 0, resident_bytes = 0, offloaded = 0, parts = 0;
    for (const StateSizes& state : StateOfWorkers(options)) {
      total += state.total();
      resident_bytes += state.resident();
      offloaded += state.offloaded();
      parts += state.master_weights() + state.first_moment() + state.second_moment() +
               state.gradient_sum();
    }
    const auto size = static_cast<double>(Parameters(kShape).size());
    EXPECT_EQ(total, 16 * Parameters(kShape).size());
    EXPECT_EQ(parts, total);
    EXPECT_EQ(resident_bytes + offloaded, total);
    EXPECT_NEAR(static_cast<double>(offloaded), 12 * (1 - resident) * size, 12 * 3);
  }
}

// Kilobytes of nameless offload files: mapped by this process, and of those in its memory.
std::pair<size_t, size_t> MappedAndInMemory() {
  std::ifstream smaps("/proc/self/smaps");
  std::string line, key;
  bool ours = false;
  size_t mapped = 0, in_memory = 0;
  while (std::getline(smaps, line)) {
    if (line.find('-') < line.find(' ') && std::isxdigit(static_cast<unsigned char>(line[0]))) {
      ours = line.find("poolscope-optimizer-") != std::string::npos;
    } else if (ours && line.starts_with("Size:")) {
      mapped += std::stoul(line.substr(5));
    } else if (ours && line.starts_with("Rss:")) {
      in_memory += std::stoul(line.substr(4));
    }
  }
  return {mapped, in_memory};
}

TEST(OptimizerState, InAFile_IsMappedFromItAndLeavesMemoryWhenReleased) {
  constexpr size_t kCount = 1 << 20;
  const OptimizerState state(kCount, {Offload::kFile, 0.25, testing::TempDir()});
  std::iota(state.master().begin(), state.master().end(), 0.0F);
  std::fill(state.second().begin(), state.second().end(), 7.0F);
  const size_t offloaded_kb = 3 * 4 * (kCount - kCount / 4) / 1024;
  EXPECT_EQ(MappedAndInMemory().first, offloaded_kb);
  EXPECT_GE(MappedAndInMemory().second, offloaded_kb * 2 / 3);
  state.Release(state.resident(), kCount);
  EXPECT_LE(MappedAndInMemory().second, 64u);
  EXPECT_EQ(state.master()[kCount - 1], static_cast<float>(kCount - 1));
  EXPECT_EQ(state.second()[kCount / 2], 7.0F);
}

TEST(OptimizerState, WithoutRoomForItsFile_EndsTheRunWithOneLine) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{16 << 10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Options options = Small();
  options.update_workers = 2;
  options.state.offload = {Offload::kFile, 0, testing::TempDir()};
  const std::string failure = Train(
      options, &Text(), [](const StepRecord&) {}, [] { return false; });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(failure, testing::AllOf(testing::HasSubstr("cannot reserve"),
                                      testing::HasSubstr("--offload-dir"),
                                      testing::Not(testing::HasSubstr("\n"))));
}

TEST(OptimizerState, InAFolderThatIsNotThere_EndsTheRunWithOneLine) {
  Options options = Small();
  for (const Mode mode : {Mode::kMonolithic, Mode::kSync, Mode::kAsync}) {
    options.mode = mode;
    options.state.offload = {Offload::kFile, 0, "/nowhere"};
    const std::string failure = Train(
        options, &Text(), [](const StepRecord&) {}, [] { return false; });
    EXPECT_THAT(failure, testing::HasSubstr("/nowhere: No such file")) << ModeName(mode);
  }
}

}  // namespace
}  // namespace poolscope::trainer
