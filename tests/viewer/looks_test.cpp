// What ranges look like: their meaning, the program's colours, what is inferred.
#include "tests/viewer/run_in_store.h"
#include "viewer/event_details.h"
#include "viewer/palette.h"
#include "viewer/queries.h"

namespace poolscope {
namespace {

class Looks : public RunInStore {
 protected:
  std::shared_ptr<const Catalog> Read() {
    Flush();
    return *ReadCatalog(*store_, kRun, nullptr);
  }
  // Of the thread's ranges, or of the wire of link "gradients" (0), in the span given.
  std::vector<Bar> Bars(int64_t tid, int64_t span_us = 1000, int64_t column_ns = 100) {
    const auto catalog = Read();
    PictureMaker maker(*store_, cache_, *catalog);
    for (const Lane& lane : catalog->lanes) {
      const bool wanted = tid == 0 ? lane.kind == LaneKind::kWire
                                   : lane.kind == LaneKind::kRanges &&
                                         catalog->ThreadOf(lane.tracks[0])->tid == tid;
      if (!wanted) continue;
      const PictureMaker::Order order{kStart, kStart + span_us * 1000, column_ns, true, {}};
      return (*maker.Make(*catalog, lane, order))->bars;
    }
    return {};
  }
  std::optional<EventDetails> Details(int64_t tid, const char* name) {
    const auto catalog = Read();
    for (size_t i = 0; i < catalog->lanes.size(); ++i) {
      const Lane& lane = catalog->lanes[i];
      if (lane.kind != LaneKind::kRanges || catalog->ThreadOf(lane.tracks[0])->tid != tid) continue;
      for (const Bar& bar : Bars(tid)) {
        if (*store_->String(bar.name) != name) continue;
        return *FindDetails(*store_, cache_, *catalog,
                            {static_cast<int>(i), bar.begin_ns, bar.end_ns, bar.name});
      }
    }
    return std::nullopt;
  }
  static std::string Field(const EventDetails& details, const std::string& name) {
    for (const auto& [field, text] : details.fields) {
      if (field == name) return text;
    }
    return "no field";
  }

  ChunkCache cache_{size_t{16} << 20};
};

TEST_F(Looks, ColoursOfTheProgramAreKept) {
  Add(7, "model", Category::kWork, "green", 0, 10, {{"nvtx.color", {0xff008000}}});
  Add(7, "model", Category::kNone, "transparent", 10, 20, {{"nvtx.color", {0x00123456}}});
  Add(7, "model", Category::kNone, "plain", 20, 30);
  const std::vector<Bar> bars = Bars(7);
  ASSERT_EQ(bars.size(), 3u);
  EXPECT_EQ(bars[0].colour, Rgb(0x008000));
  EXPECT_EQ(bars[0].category, 0u);  // the program's own category 1 is no work
  EXPECT_EQ(bars[1].colour, Rgb(0x123456));
  EXPECT_EQ(bars[2].colour, 0u);
}

TEST_F(Looks, NameOfCppHasWhatTheCompilerWroteInItsDetails) {
  Add(kStream, "cuda", Category::kNone, "gemm(float*)", 0, 10);
  Add(kStream, "cuda", Category::kNone, "memset", 20, 30);
  ASSERT_TRUE(store_->Put(SymbolRow{*store_->Intern("gemm(float*)"), "_Z4gemmPf"}).ok());
  EXPECT_EQ(Field(*Details(kStream, "gemm(float*)"), "mangled"), "_Z4gemmPf");
  EXPECT_EQ(Field(*Details(kStream, "memset"), "mangled"), "no field");
}

TEST_F(Looks, BlueThatPyPIsNvtxGivesToAllIsNoChoice) {
  Add(7, "", Category::kNone, "default", 0, 10, {{"nvtx.color", {0x000000ff}}});
  Add(7, "", Category::kNone, "chosen", 10, 20, {{"nvtx.color", {0xff0000ff}}});
  const std::vector<Bar> bars = Bars(7);
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_EQ(bars[0].colour, 0u);
  EXPECT_EQ(bars[1].colour, Rgb(0x0000ff));
}

TEST_F(Looks, ColoursStayWhereChunksAreTooManyToDecode) {
  const std::vector<Group> red = {{"nvtx.color", {0xffff0000}}};
  const int64_t many = 8200 * static_cast<int64_t>(PictureMaker::kMaxDecodedChunks);
  for (int64_t i = 0; i < many; ++i)
    Add(7, "model", Category::kNone, "red", 10 * i, 10 * i + 9, red);
  const std::vector<Bar> bars = Bars(7, many * 10, many * 10);
  ASSERT_FALSE(bars.empty());
  EXPECT_LT(cache_.chunks_read(), 3u);
  for (const Bar& bar : bars) {
    EXPECT_EQ(bar.colour, bar.name != 0 ? Rgb(0xff0000) : 0u);
  }
  // Of what is merged, the look that covers most.
  EXPECT_EQ(bars[0].colour, Rgb(0xff0000));
}

TEST_F(Looks, MergedRangesHaveTheColourThatCoversMost) {
  Add(7, "model", Category::kNone, "a", 0, 2, {{"nvtx.color", {0xffff0000}}});
  Add(7, "model", Category::kNone, "a", 2, 8, {{"nvtx.color", {0xff0000ff}}});
  Add(7, "model", Category::kNone, "a", 8, 9, {{"nvtx.color", {0xffff0000}}});
  const std::vector<Bar> bars = Bars(7, 1000, 1 << 20);
  ASSERT_EQ(bars.size(), 1u);
  EXPECT_EQ(bars[0].events, 3u);
  EXPECT_EQ(bars[0].colour, Rgb(0x0000ff));
}

TEST_F(Looks, TransfersThatAMappingMadeAreInferred) {
  const uint64_t cuda = *store_->Intern("cuda");
  const uint64_t copy = *store_->Intern("copy device to pinned");
  std::vector<uint64_t> fields(kTransferFields, kNoValue);
  fields[kTransferStage] = static_cast<uint64_t>(Stage::kWire);
  Add(kStream | kMappedTid, "poolscope", Category::kTransfer, "gradients", 10, 30,
      {{"poolscope.transfer", fields}, {"poolscope.mapped", {cuda, copy}}});
  AddTransfer(7, Stage::kWire, 50, 60);
  const std::vector<Bar> bars = Bars(0);
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_TRUE(bars[0].inferred);
  EXPECT_FALSE(bars[1].inferred);
  const auto details = Details(kStream | kMappedTid, "gradients");
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->kind, "transfer, wire stage, inferred");
  EXPECT_EQ(Field(*details, "made of"), "cuda: copy device to pinned");
}

TEST_F(Looks, MessageGoesFromItsSenderOverItsOwnLinkToItsReceiver) {
  ASSERT_TRUE(store_->Put(LinkRow{kRun, "weights", "update", "compute", 1, 1}).ok());
  const uint64_t nccl = *store_->Intern("nccl");
  std::vector<uint64_t> fields(kTransferFields, kNoValue);
  fields[kTransferStage] = static_cast<uint64_t>(Stage::kWire);
  fields[kTransferSource] = fields[kTransferDestination] = 0;
  fields[kTransferSequence] = uint64_t{1} << 62 | 3;
  Add(7, "model", Category::kNone, "forward", 0, 100);
  Add(8, "poolscope", Category::kTransfer, "weights", 10, 30,
      {{"poolscope.transfer", fields}, {"poolscope.mapped", {nccl, nccl}}});
  const auto details = Details(8, "weights");
  ASSERT_TRUE(details.has_value());
  ASSERT_EQ(details->stages.size(), 1u);
  const auto catalog = Read();
  const auto lane = [&](int index) -> const Lane& {
    return catalog->lanes.at(static_cast<size_t>(index));
  };
  EXPECT_EQ(lane(details->stages[0].lane).kind, LaneKind::kWire);
  EXPECT_EQ(lane(details->stages[0].lane).subject, "weights");  // gradients' wire shows 8 as well
  EXPECT_EQ(catalog->ThreadOf(lane(details->sender_lane).tracks[0])->tid, 8);
  EXPECT_EQ(catalog->ThreadOf(lane(details->receiver_lane).tracks[0])->tid, 7);
}

TEST_F(Looks, StatisticsGroupByMeaningNotByTheProgramsNumbers) {
  Add(7, "model", Category::kTransfer, "load", 0, 10, {{"nvtx.color", {0xff00ff00}}});
  AddKernel("_Z28ncclDevKernel_AllReduce_Sum", 7, 20, 30);
  const auto catalog = Read();
  std::map<std::string, EventLook> looks;
  const std::vector<NameStatistics> rows =
      *CountNames(*store_, cache_, *catalog, {kStart, kStart + 100'000});
  for (const NameStatistics& row : rows) {
    looks[row.name] = row.look;
  }
  EXPECT_EQ(looks["load"], (EventLook{0, 0, false, Rgb(0x00ff00)}));
  EXPECT_EQ(looks["_Z28ncclDevKernel_AllReduce_Sum"].category,
            static_cast<uint32_t>(Category::kWaitPeer));
}

TEST_F(Looks, KernelTellsWhoLaunchedItWhenAndFromWhichRange) {
  const int64_t offset = kStart - 5'000'000;  // the host's clock stood at 5 ms
  ASSERT_TRUE(store_->Put(SettingRow{kRun, "clock.offset_ns.boot", std::to_string(offset)}).ok());
  const uint64_t forward = *store_->Intern("forward");
  const uint32_t schema = *store_->Intern("cuda.kernel");
  ASSERT_TRUE(store_
                  ->PutSchema(schema, {{"correlation", 'u'},
                                       {"launch_tid", 'u'},
                                       {"range", 's'},
                                       {"range_open_id", 'u'},
                                       {"blocks", 'u'},
                                       {"threads_per_block", 'u'},
                                       {"registers", 'u'},
                                       {"shared_bytes", 'u'},
                                       {"graph", 'u'},
                                       {"graph_node", 'u'},
                                       {"queued_ns", 'u'}})
                  .ok());
  Add(7, "model", Category::kNone, "forward", 0, 10);
  Add(kStream, "cuda", Category::kNone, "gemm", 40, 90,
      {{"cuda.kernel", {17, 7, forward, 3, 64, 256, 96, 2048, 0, 0, 5'010'000}}});
  const auto details = Details(kStream, "gemm");
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->kind, "kernel");
  EXPECT_EQ(details->place, "device 0 stream 7");
  EXPECT_EQ(Field(*details, "worker"), "compute 0");  // whose thread 7 is; the stream is update's
  EXPECT_EQ(Field(*details, "launched by"), "host");
  EXPECT_EQ(Field(*details, "launched"), "30.0 \xc2\xb5s before");
  EXPECT_EQ(Field(*details, "range"), "forward");
  EXPECT_EQ(Field(*details, "threads per block"), "256");
  EXPECT_EQ(Field(*details, "graph"), "no field");
  ASSERT_TRUE(details->launch.has_value());
  EXPECT_EQ(details->launch->at_ns, kStart + 10'000);
  const auto catalog = Read();
  const Lane& from = catalog->lanes.at(static_cast<size_t>(details->launch->lane));
  EXPECT_EQ(catalog->ThreadOf(from.tracks[0])->tid, 7);
}

TEST(Palette, ColoursOfProgramsStayVisibleAndTheirTextReadable) {
  EXPECT_EQ(Visible(Rgb(0x00ff00)), Rgb(0x00ff00));
  const auto luma = [](Colour c) {
    return 0.299 * (c & 255) + 0.587 * (c >> 8 & 255) + 0.114 * (c >> 16 & 255);
  };
  for (const uint32_t rgb : {0x000000u, 0x202020u, 0x0000ffu, 0xff0000u, 0x808080u, 0xffffffu}) {
    const Colour shown = Visible(Rgb(rgb));
    EXPECT_GT(luma(shown) - luma(colour::kLane), 35) << rgb;
    EXPECT_GT(std::abs(luma(shown) - luma(TextOn(shown))), 90) << rgb;
  }
}

}  // namespace
}  // namespace poolscope
