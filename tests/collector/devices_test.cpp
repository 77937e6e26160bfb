// What activities on device streams mean for workers and links.
#include "tests/collector/device_session.h"

namespace poolscope {
namespace {

TEST_F(Devices, KernelsOfSeveralStreams_AreBusyOnce) {
  Kernel(1, 100, 300);
  Kernel(0, 200, 500);  // over it, on another stream
  Kernel(0, 0, 50);     // told late
  Kernel(0, 900, 1000);
  Finish();
  EXPECT_NEAR(Ms("compute", State::kBusy), 550, 1);
}

TEST_F(Devices, HostWorkBesideKernels_CountsOnceAndOverAnEmptyDeviceIsHostBound) {
  Host(kCompute, 0, 1000, Category::kWork);
  Host(kUpdate, 0, 1000, Category::kWork);  // a worker without a device works itself
  Kernel(0, 200, 500);
  Kernel(0, 1000, 1200);
  Finish();
  EXPECT_NEAR(Ms("compute", State::kBusy), 500, 1);
  EXPECT_NEAR(Ms("compute", State::kHostBound), 700, 1);
  EXPECT_NEAR(Ms("update", State::kBusy), 1000, 1);
  auto store = OpenStore();
  const auto workers = store->Workers(store->FindRun("")->run_id);
  EXPECT_EQ((*workers)[0].device, "cuda:3");
  EXPECT_EQ((*workers)[1].device, "cpu");
}

TEST_F(Devices, KernelsOfNccl_WaitForPeersWhereNoOtherRuns) {
  Kernel(0, 0, 100);
  Kernel(1, 50, 300, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
  Kernel(1, 400, 600, "_Z44ncclDevKernel_AllReduce_Sum_bf16_RING_SIMPLE24ncclDevKernelArgs");
  Kernel(1, 700, 800, "_Z26ncclKernel_SendRecv_RING_SIMPLE");
  Kernel(1, 900, 1000, "_Z9notncclDevKernelv");
  Finish();
  EXPECT_NEAR(Ms("compute", State::kBusy), 200, 1);
  EXPECT_NEAR(Ms("compute", State::kWaitPeer), 200 + 200 + 100, 1);
}

TEST_F(Devices, Kernels_BelongToTheWorkerWhoseThreadLaunchedThem) {
  Kernel(0, 0, 100, "forward", kCompute);
  Kernel(0, 100, 300, "adamw", kUpdate);   // two workers on one stream
  Kernel(0, 300, 1000, "backward", 4711);  // autograd's thread: the stream's worker
  Kernel(1, 300, 1000, "nobody's", 0);     // no thread is known, nor a worker
  Finish();
  EXPECT_NEAR(Ms("compute", State::kBusy), 800, 1);
  EXPECT_NEAR(Ms("update", State::kBusy), 200, 1);
  auto store = OpenStore();
  std::map<std::string, std::string> pools;
  const auto threads = store->Threads(store->FindRun("")->run_id);
  for (const ThreadRow& row : *threads) pools[row.name] = row.pool;
  EXPECT_EQ(pools["device 3 stream 0"], "compute");
  EXPECT_EQ(pools["device 3 stream 1"], "");
}

TEST_F(Devices, RecordsWithinTheWatermark_CountWhereTheyHappened) {
  zero_ = MonotonicNs() - 3000 * kMs;
  Kernel(0, 0, 1000);
  auto collector = Open();
  DrainOnce(*collector);  // windows up to half a second ago are closed
  const int64_t now = (MonotonicNs() - zero_) / kMs;
  Kernel(0, now - 50, now);
  Kernel(0, now - 200, now - 100);  // out of order
  session_->Exit();
  DrainOnce(*collector);
  EXPECT_NEAR(Ms("compute", State::kBusy), 1150, 1);
  EXPECT_EQ(Lost("late"), 0);
}

TEST_F(Devices, RecordsOfClosedWindows_CountInThem) {
  Kernel(0, 0, 1000);
  auto collector = Open();
  DrainOnce(*collector);
  Kernel(0, 2000, 5500);
  Kernel(1, 3000, 3100);  // beside it
  DrainOnce(*collector);
  Kernel(0, 8000, 10'000);  // in part
  session_->Exit();
  DrainOnce(*collector);
  EXPECT_NEAR(Ms("compute", State::kBusy), 1000 + 3500 + 2000, 1);
  EXPECT_EQ(Lost("late"), 0);
  EXPECT_EQ(Lost("undecodable"), 0);
}

TEST_F(Devices, RecordsOfWindowsThatAreClosedForGood_AreKeptAndCountedAsLate) {
  zero_ = MonotonicNs() - 40'000 * kMs;
  Kernel(0, 0, 1000);
  auto collector = Open();
  DrainOnce(*collector);
  Kernel(0, 2000, 2100);
  Kernel(0, 15'000, 30'000);  // in part
  session_->Exit();
  DrainOnce(*collector);
  EXPECT_EQ(Lost("late"), 2);
  EXPECT_EQ(Stored().size(), 3u);
  // Twenty seconds before the last closed window's end.
  EXPECT_NEAR(Ms("compute", State::kBusy), 1000 + 30'000 - (40'000 - 500 - 20'000), 1001);
}

TEST_F(Devices, SecondCollector_GoesOnWithTheSameMeaning) {
  zero_ = MonotonicNs() - 400 * kMs;  // no window is closed but by the watermark
  Kernel(0, 0, 100);
  Host(kCompute, 0, 200, Category::kWork);
  {
    auto collector = Open();
    DrainOnce(*collector);
  }
  Host(kCompute, 300, 350, Category::kWork);
  Kernel(0, 350, 400, "backward", 4711);
  Finish();
  EXPECT_NEAR(Ms("compute", State::kBusy), 150, 1);
  EXPECT_NEAR(Ms("compute", State::kHostBound), 150, 1);
}

constexpr char kCopies[] = R"(
[[link]]
name = "weights"
from = "update"
to = "compute"
[[range]]
domain = "cuda"
name = "copy * to device"
means = "wire"
link = "weights"
)";

TEST_F(Devices, CopiesThatTheMappingGivesToALink_AreItsTransfers) {
  UseMapping(kCopies);
  Kernel(0, 0, 100);
  Copy(50, 200, "copy pinned to device", 1000, 1);
  Copy(300, 400, "copy pageable to device", 500, 2);
  Copy(500, 600, "copy device to pinned", 7, 3);
  Host(kUpdate, 0, 1000, Category::kWork);
  Finish();
  EXPECT_NEAR(Ms("compute", State::kBusy), 100, 1);
  EXPECT_NEAR(Ms("compute", State::kWaitLink), 100 + 100, 1);  // nothing else to do
  auto store = OpenStore();
  const std::string run = store->FindRun("")->run_id;
  int64_t bytes = 0, transfers = 0, wire_ns = 0, traffic_ns = 0;
  const auto links = store->LinkWindows(run, {});
  for (const LinkWindowRow& row : *links) {
    bytes += row.wire_bytes;
    transfers += row.transfers;
    wire_ns += row.stage_ns[static_cast<size_t>(Stage::kWire)];
  }
  const auto ends = store->WorkerLinkWindows(run, {});
  for (const WorkerLinkWindowRow& row : *ends) {
    if (row.pool == "update") traffic_ns += row.traffic_ns;
    EXPECT_EQ(row.wire_ns, row.wait_ns);
  }
  EXPECT_EQ(bytes, 1500);
  EXPECT_EQ(transfers, 2);
  EXPECT_NEAR(static_cast<double>(wire_ns) / kMs, 250, 1);
  EXPECT_NEAR(static_cast<double>(traffic_ns) / kMs, 250, 1);
}

TEST_F(Devices, CopiesOfALinkThatTheJobMarksItself_AreNotCountedTwice) {
  UseMapping(kCopies);
  session_->Resource(domain_, 0, "link weights update compute 2 1");
  Copy(50, 200, "copy pinned to device", 1000, 1);
  Host(kCompute, 0, 1000, Category::kInput);
  Finish();
  EXPECT_NEAR(Ms("compute", State::kWaitLink), 150, 1);
  auto store = OpenStore();
  const auto links = store->LinkWindows(store->FindRun("")->run_id, {});
  for (const LinkWindowRow& row : *links) {
    EXPECT_EQ(row.transfers, 0);
    EXPECT_EQ(row.wire_bytes, 0);
  }
}

}  // namespace
}  // namespace poolscope
