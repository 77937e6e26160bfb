#include "viewer/lanes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace poolscope {
namespace {

LaneSource TwoPools() {
  LaneSource source;
  source.pools = {{"r", "update", "update", 1}, {"r", "compute", "compute", 2}};
  source.links = {{"r", "gradients", "compute", "update", 4, 1},
                  {"r", "weights", "update", "compute", 2, 1}};
  source.threads = {{1, "s", 11, "", "compute", 0},
                    {2, "s", 12, "", "compute", 1},
                    {3, "s", 13, "", "update", 0},
                    {4, "s", 14, "link/gradients/0", "", -1},
                    {5, "s", 15, "main", "", -1}};
  for (int64_t thread = 1; thread <= 5; ++thread) {
    source.tracks.push_back({{thread * 10, "r", thread, 1, 0}, "", 1});
  }
  source.tracks.push_back({{61, "r", 4, 3, 7}, "gradients.depth", 0});
  source.tracks.push_back({{62, "r", 1, 3, 7}, "gradients.depth", 0});
  return source;
}

std::string Shape(const std::vector<Lane>& lanes) {
  std::string shape;
  for (const Lane& lane : lanes) {
    if (IsTitle(lane.kind)) shape += lane.label + " ";
  }
  return shape;
}

TEST(Lanes, LinksLieBetweenTheirPools) {
  EXPECT_EQ(Shape(MakeLanes(TwoPools())), "compute gradients weights update other threads ");
}

TEST(Lanes, WireThreadsBelongToTheirLinkAndCountersAreUnited) {
  bool wire = false;
  bool depth = false;
  for (const Lane& lane : MakeLanes(TwoPools())) {
    if (lane.kind == LaneKind::kWire && lane.subject == "gradients") {
      wire = true;
      EXPECT_EQ(lane.tracks, std::vector<int64_t>{40});
    }
    if (lane.kind == LaneKind::kDepth && lane.subject == "gradients") {
      depth = true;
      EXPECT_EQ(lane.tracks, (std::vector<int64_t>{61, 62}));
    }
    if (lane.kind == LaneKind::kRanges) {
      EXPECT_NE(lane.tracks.front(), 40);
    }
  }
  EXPECT_TRUE(wire && depth);
}

TEST(Lanes, OneThreadMayBeEveryLinksWire) {
  LaneSource source = TwoPools();
  source.threads[3].name = "link/*/0";
  size_t wires = 0;
  for (const Lane& lane : MakeLanes(source)) {
    if (lane.kind == LaneKind::kWire) wires += lane.tracks == std::vector<int64_t>{40};
    if (lane.kind == LaneKind::kRanges) {
      EXPECT_NE(lane.tracks.front(), 40);
    }
  }
  EXPECT_EQ(wires, 2u);
}

TEST(Lanes, RunWithoutPoolsShowsItsThreads) {
  LaneSource source;
  source.threads = {{1, "s", 11, "main", "", -1}};
  source.tracks = {{{10, "r", 1, 1, 0}, "", 3}};
  const std::vector<Lane> lanes = MakeLanes(source);
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].label, "threads");
  EXPECT_EQ(lanes[1].rows, 4);
}

TEST(Lanes, FoldedPoolKeepsItsStates) {
  const std::vector<Lane> lanes = MakeLanes(TwoPools());
  std::vector<bool> folded(lanes.size(), true);
  const std::vector<LaneBox> boxes = StackLanes(lanes, folded, {});
  for (size_t i = 0; i < lanes.size(); ++i) {
    const bool shown = IsTitle(lanes[i].kind) || lanes[i].kind == LaneKind::kStates;
    EXPECT_EQ(boxes[i].height > 0, shown) << i;
  }
}

LaneSource PoolsOf(int64_t compute, int64_t update) {
  LaneSource source = TwoPools();
  source.threads.clear();
  source.tracks.clear();
  for (const auto& [pool, workers] : {std::pair("compute", compute), {"update", update}}) {
    for (int64_t worker = 0; worker < workers; ++worker) {
      const int64_t id = static_cast<int64_t>(source.threads.size()) + 1;
      source.threads.push_back({id, "s", id, "", pool, worker});
      source.tracks.push_back({{id, "r", id, 1, 0}, "", 1});
    }
  }
  return source;
}

// Titles that start folded, by label.
std::string Folded(const std::vector<Lane>& lanes) {
  const std::vector<bool> folded = StartFolded(lanes);
  std::string out;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (folded[i]) out += lanes[i].label + " ";
  }
  return out;
}

TEST(Lanes, PoolsOfManyWorkersStartFolded) {
  EXPECT_EQ(Folded(MakeLanes(PoolsOf(4, 2))), "");
  EXPECT_EQ(Folded(MakeLanes(PoolsOf(8, 8))), "");
  EXPECT_EQ(Folded(MakeLanes(PoolsOf(40, 8))), "compute ");
  EXPECT_EQ(Folded(MakeLanes(PoolsOf(9, 100))), "compute update ");
}

TEST(Lanes, FortyAndEightWorkersLeaveAllTitlesAndLinksInSight) {
  const std::vector<Lane> lanes = MakeLanes(PoolsOf(40, 8));
  const std::vector<LaneBox> boxes = StackLanes(lanes, StartFolded(lanes), {});
  for (size_t i = 0; i < lanes.size(); ++i) {
    const bool first_sight = IsTitle(lanes[i].kind) || lanes[i].kind == LaneKind::kWire ||
                             lanes[i].kind == LaneKind::kDepth ||
                             lanes[i].kind == LaneKind::kBandwidth ||
                             lanes[i].kind == LaneKind::kLag;
    if (!first_sight) continue;
    EXPECT_GT(boxes[i].height, 0) << lanes[i].label;
    EXPECT_LE(boxes[i].top + boxes[i].height, 778) << lanes[i].label;  // 1600x900 has these
  }
}

RC_GTEST_PROP(Lanes, HitTestFindsExactlyTheLaneDrawnThere, ()) {
  const std::vector<Lane> lanes = MakeLanes(TwoPools());
  const auto bits =
      *rc::gen::container<std::vector<bool>>(lanes.size(), rc::gen::arbitrary<bool>());
  const std::vector<LaneBox> boxes = StackLanes(lanes, bits, {});
  const float y = static_cast<float>(*rc::gen::inRange(-50, 900));
  int expected = -1;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (y >= boxes[i].top && y < boxes[i].top + boxes[i].height) {
      RC_ASSERT(expected == -1);  // lanes do not overlap
      expected = static_cast<int>(i);
    }
  }
  RC_ASSERT(LaneAt(boxes, y) == expected);
}

TEST(Lanes, CountersOfADeviceStandBelowTheWorkerThatItIs) {
  LaneSource source = TwoPools();
  source.threads.push_back({6, "s", kFirstLaneThread + 1, "device 0 stream 10", "compute", 1});
  source.threads.push_back({7, "s", kFirstLaneThread + 2, "device 0 stream 9", "compute", 1});
  source.tracks.push_back({{70, "r", 6, 1, 0}, "", 0});
  source.tracks.push_back({{71, "r", 7, 1, 0}, "", 0});
  // The agent's own thread, of no pool, samples them.
  source.tracks.push_back({{80, "r", 5, 3, 8}, "device 0.allocated_bytes", 0});
  source.tracks.push_back({{81, "r", 5, 3, 9}, "loss", 0});
  source.tracks.push_back({{82, "r", 5, 3, 10}, "device 1.sm_active", 0});
  const std::vector<Lane> lanes = MakeLanes(source);
  std::string order;
  for (const Lane& lane : lanes) {
    if (lane.subject == "compute" && lane.worker == 1) order += lane.label + lane.detail + "; ";
    if (lane.kind == LaneKind::kCounter && lane.counter == "device 1.sm_active") {
      EXPECT_EQ(lane.worker, -1);  // nobody's streams
    }
  }
  EXPECT_EQ(order,
            "compute 1; thread 12; device 0 stream 9; device 0 stream 10; "
            "allocated bytesdevice 0; ");
  EXPECT_EQ(lanes.back().counter, "loss");
  const std::vector<bool> folded = StartFolded(lanes);
  ASSERT_EQ(lanes[lanes.size() - 2].kind, LaneKind::kCounters);
  EXPECT_TRUE(folded[lanes.size() - 2]);
}

TEST(Lanes, ThreadsStandByProcessAndThoseOfOneNameHaveTheirNumber) {
  LaneSource source;
  source.processes = {{"a", "r", "h", "train.py", 100}, {"b", "r", "h", "load.py", 200}};
  source.threads = {{1, "a", 11, "python", "", -1},
                    {2, "b", 21, "python", "", -1},
                    {3, "a", 12, "python", "", -1},
                    {4, "a", 13, "io", "", -1}};
  for (int64_t i = 1; i <= 4; ++i) source.tracks.push_back({{i * 10, "r", i, 1, 0}, "", 0});
  std::string shape;
  for (const Lane& lane : MakeLanes(source)) shape += lane.label + "; ";
  EXPECT_EQ(shape, "process 100; python 11; python 12; io; process 200; python; ");
}

TEST(Lanes, ThreadsInTurnShareALaneWhereThereAreVeryMany) {
  LaneSource source;
  source.ended = true;
  const auto add = [&](int64_t id, int64_t first_ns, int64_t last_ns) {
    source.threads.push_back({id, "a", id, "", "", -1});
    source.tracks.push_back({{id, "r", id, 1, 0}, "", 0, first_ns, last_ns});
  };
  add(1, 0, 1000);  // as long as all others together
  for (int64_t i = 2; i <= 20; ++i) add(i, i * 10, i * 10 + 5);
  EXPECT_EQ(MakeLanes(source).size(), 21u);
  for (int64_t i = 21; i <= 90; ++i) add(i, i * 10, i * 10 + 5);
  const std::vector<Lane> lanes = MakeLanes(source);
  ASSERT_EQ(lanes.size(), 3u);
  EXPECT_EQ(lanes[1].tracks, std::vector<int64_t>{1});
  EXPECT_EQ(lanes[2].label, "89 threads in turn");
  EXPECT_TRUE(std::is_sorted(lanes[2].tracks.begin(), lanes[2].tracks.end()));
  source.ended = false;  // a thread may go on
  EXPECT_EQ(MakeLanes(source).size(), 91u);
}

}  // namespace
}  // namespace poolscope
