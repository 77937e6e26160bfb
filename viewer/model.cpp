#include "viewer/model.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace poolscope {
namespace {

using Clock = std::chrono::steady_clock;
// Frames come first: a reader yields to the window's thread and to a software renderer's.
void YieldToFrames() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10); }

}  // namespace

Result<std::unique_ptr<ViewModel>> ViewModel::Open(const std::filesystem::path& path,
                                                   const std::string& run_prefix, Options options) {
  Result<Store> store = Store::Open(path, Store::Mode::kRead);
  if (!store) return store.error();
  Result<Store> report_store = Store::Open(path, Store::Mode::kRead);
  if (!report_store) return report_store.error();
  Result<RunRow> run = store->FindRun(run_prefix);
  if (!run) return run.error();
  Result<std::shared_ptr<const Catalog>> catalog = ReadCatalog(*store, run->run_id, nullptr);
  if (!catalog) return catalog.error();
  auto answer = std::make_shared<ViewAnswer>();
  answer->catalog = *catalog;
  answer->lanes.resize(answer->catalog->lanes.size());
  answer->names = std::make_shared<const NameMap>();
  std::unique_ptr<ViewModel> model(
      new ViewModel(std::move(*store), std::move(*report_store), run->run_id, std::move(options)));
  model->answer_ = std::move(answer);
  model->live_ = !run->ended;
  model->data_version_ = model->store_.DataVersion();
  model->reader_ = std::thread([raw = model.get()] { raw->Read(); });
  if (model->options_.report) {
    model->advising_ = true;
    model->advisor_ = std::thread([raw = model.get()] { raw->Advise(); });
  }
  return model;
}

ViewModel::ViewModel(Store store, Store report_store, std::string run_id, Options options)
    : run_id_(std::move(run_id)),
      options_(std::move(options)),
      store_(std::move(store)),
      cache_(options_.cache_bytes),
      report_store_(std::move(report_store)) {}

ViewModel::~ViewModel() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_reader_.notify_all();
  wake_advisor_.notify_all();
  if (reader_.joinable()) reader_.join();
  if (advisor_.joinable()) advisor_.join();
}

std::shared_ptr<const ViewAnswer> ViewModel::answer() const {
  const std::lock_guard lock(mutex_);
  return answer_;
}

void ViewModel::Ask(const ViewRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    if (request_ ? *request_ == request : current_ == request) return;
    request_ = request;
  }
  wake_reader_.notify_one();
}

std::shared_ptr<const Report> ViewModel::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

std::string ViewModel::report_error() const {
  const std::lock_guard lock(mutex_);
  return report_error_;
}

void ViewModel::AskDetails(const EventKey& key) {
  {
    const std::lock_guard lock(mutex_);
    details_key_ = key;
    details_.reset();
  }
  wake_reader_.notify_one();
}

std::optional<EventDetails> ViewModel::details() const {
  const std::lock_guard lock(mutex_);
  return details_;
}

void ViewModel::Search(const std::string& text, int64_t from_ns, bool forward) {
  {
    const std::lock_guard lock(mutex_);
    search_ = SearchRequest{text, from_ns, forward};
  }
  wake_reader_.notify_one();
}

ViewModel::Found ViewModel::found() const {
  const std::lock_guard lock(mutex_);
  return found_;
}

bool ViewModel::busy() const {
  const std::lock_guard lock(mutex_);
  return request_ || details_key_ || search_ || reading_ || advising_;
}

ModelCounters ViewModel::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

bool ViewModel::Newer(const ViewRequest& request) const {
  const std::lock_guard lock(mutex_);
  return stop_ || (request_ && !(*request_ == request));
}

void ViewModel::Publish(const std::function<void(ViewAnswer&)>& change) {
  {
    const std::lock_guard lock(mutex_);
    auto next = std::make_shared<ViewAnswer>(*answer_);
    change(*next);
    answer_ = std::move(next);
    counters_.cache_bytes = cache_.bytes();
    counters_.chunks_read = cache_.chunks_read();
    ++counters_.pictures;
  }
  if (options_.wake) options_.wake();
}

void ViewModel::LearnNames(const LanePicture& picture, NameMap& names) {
  for (const Bar& bar : picture.bars) {
    if (bar.name == 0 || names.count(bar.name) != 0) continue;
    Result<std::string> name = store_.String(bar.name);
    if (name) names[bar.name] = *name;
  }
}

// Takes up what another process has committed; true where there was something.
bool ViewModel::Refresh() {
  const int64_t version = store_.DataVersion();
  if (version == data_version_) return false;
  data_version_ = version;
  const std::shared_ptr<const Catalog> before = answer()->catalog;
  Result<std::shared_ptr<const Catalog>> catalog = ReadCatalog(store_, run_id_, before.get());
  if (!catalog) {
    Publish([&](ViewAnswer& next) { next.error = catalog.error().message; });
    return false;
  }
  live_ = !(*catalog)->run.ended;
  const auto shows_same = [](const Lane& a, const Lane& b) {
    return a.kind == b.kind && a.tracks == b.tracks;
  };
  const bool same = std::equal((*catalog)->lanes.begin(), (*catalog)->lanes.end(),
                               before->lanes.begin(), before->lanes.end(), shows_same);
  Publish([&](ViewAnswer& next) {
    next.catalog = *catalog;
    // Lanes that came between others move the pictures; they are made again at once.
    if (!same) next.lanes.assign(next.catalog->lanes.size(), nullptr);
  });
  return true;
}

void ViewModel::MakePictures(const ViewRequest& request) {
  const std::shared_ptr<const Catalog> catalog = answer()->catalog;
  PictureMaker maker(store_, cache_, *catalog);
  PictureMaker::Order order;
  // Half a view more on each side, so that panning has something to show.
  const int64_t margin = (request.end_ns - request.begin_ns) / 2;
  order.begin_ns = request.begin_ns - margin;
  order.end_ns = request.end_ns + margin;
  order.column_ns = request.column_ns;
  order.cancelled = [&] { return Newer(request); };
  auto names = std::make_shared<NameMap>(*answer()->names);
  for (const bool detail : {false, true}) {
    order.detail = detail;
    for (const int lane : request.lanes) {
      if (lane < 0 || static_cast<size_t>(lane) >= catalog->lanes.size()) continue;
      const auto index = static_cast<size_t>(lane);
      const std::shared_ptr<const LanePicture> before = answer()->lanes[index];
      // Something is there to see: wait for the detail rather than show less for a moment.
      if (!detail && before && before->Covers(request.begin_ns, request.end_ns)) continue;
      Result<std::shared_ptr<const LanePicture>> picture =
          maker.Make(*catalog, catalog->lanes[index], order);
      if (!picture) {
        Publish([&](ViewAnswer& next) { next.error = picture.error().message; });
        return;
      }
      if (*picture == nullptr) return;  // a newer request is waiting
      const size_t known = names->size();
      LearnNames(**picture, *names);
      const bool learned = names->size() != known;
      auto shared = learned ? std::make_shared<const NameMap>(*names) : nullptr;
      Publish([&](ViewAnswer& next) {
        next.lanes[index] = *picture;
        if (shared) next.names = shared;
      });
    }
  }
  Result<std::vector<StepRow>> steps = maker.Steps(*catalog, order);
  if (steps) {
    Publish([&](ViewAnswer& next) { next.steps = std::move(*steps); });
  }
  if (request.statistics && !Newer(request)) {
    Result<std::vector<NameStatistics>> statistics =
        CountNames(store_, cache_, *catalog, {request.begin_ns, request.end_ns});
    if (!statistics) {
      Publish([&](ViewAnswer& next) { next.error = statistics.error().message; });
      return;
    }
    Publish([&](ViewAnswer& next) {
      next.statistics = std::move(*statistics);
      next.statistics_begin_ns = request.begin_ns;
      next.statistics_end_ns = request.end_ns;
    });
  }
  // All that was asked for could be read.
  if (!answer()->error.empty()) Publish([](ViewAnswer& next) { next.error.clear(); });
}

void ViewModel::Read() {
  YieldToFrames();
  Clock::time_point next_poll = Clock::now();
  while (true) {
    std::optional<EventKey> details;
    std::optional<SearchRequest> search;
    std::optional<ViewRequest> request;
    {
      std::unique_lock lock(mutex_);
      const auto wanted = [&] { return stop_ || request_ || details_key_ || search_; };
      if (live_) {
        wake_reader_.wait_until(lock, next_poll, wanted);
      } else {
        // A run that has ended may still be written: its collector drains what is left.
        wake_reader_.wait_for(lock, std::chrono::seconds(2), wanted);
      }
      if (stop_) return;
      details.swap(details_key_);
      search.swap(search_);
      request.swap(request_);
      if (request) current_ = *request;
      reading_ = details || search || request;
    }
    const Clock::time_point started = Clock::now();
    if (details) {
      Result<std::optional<EventDetails>> found =
          FindDetails(store_, cache_, *answer()->catalog, *details);
      const std::lock_guard lock(mutex_);
      if (found && !details_key_) details_ = std::move(*found);
    }
    if (search) {
      Result<std::optional<EventKey>> found = FindNext(
          store_, cache_, *answer()->catalog, search->text, search->from_ns, search->forward);
      const std::lock_guard lock(mutex_);
      ++found_.serial;
      found_.key = found ? *found : std::nullopt;
    }
    bool grown = false;
    if (started >= next_poll) {
      grown = Refresh();
      if (grown && !request) request = current_;
    }
    if (request && !request->lanes.empty()) MakePictures(*request);
    // A store that grows faster than it can be drawn leaves two thirds of the time to others.
    const auto spent =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started);
    if (started >= next_poll) {
      next_poll = Clock::now() + std::max(std::chrono::milliseconds(options_.poll_ms), 2 * spent);
    }
    if (!details && !search && !request) continue;
    {
      const std::lock_guard lock(mutex_);
      reading_ = false;
    }
    if (options_.wake) options_.wake();  // last, so that a window that sleeps sees it idle
  }
}

void ViewModel::Advise() {
  YieldToFrames();
  std::chrono::milliseconds pause{0};
  int64_t version = -1;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_advisor_.wait_for(lock, pause, [&] { return stop_; });
      if (stop_) return;
    }
    const Clock::time_point started = Clock::now();
    if (const int64_t now = report_store_.DataVersion(); now != version) {
      version = now;
      Result<Report> report = BuildReport(report_store_, run_id_);
      {
        const std::lock_guard lock(mutex_);
        if (report) {
          report_ = std::make_shared<const Report>(std::move(*report));
          report_error_.clear();
        } else {
          report_error_ = report.error().message;
        }
        advising_ = false;
      }
      if (options_.wake) options_.wake();
    }
    const auto spent =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started);
    pause = std::max<std::chrono::milliseconds>(std::chrono::seconds(5), 20 * spent);
  }
}

}  // namespace poolscope
