#include "collector/run_model.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "trace/session_reader.h"

namespace poolscope {
namespace {

constexpr size_t kMaxWorkers = 65536;
constexpr size_t kMaxLinks = 1024;
constexpr size_t kMaxSettings = 4096;
constexpr int kMaxUnread = 4;  // of what the job says in words that are none, kept to be shown
constexpr size_t kMaxUnreadBytes = 100;

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool Number(std::string_view text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 0;
}

}  // namespace

Status RunModel::Load(const Store& store) {
  const auto pools = store.Pools(run_id_);
  if (!pools.ok()) return pools.error();
  for (const PoolRow& row : *pools) {
    pools_[row.pool].role = row.role;
    pools_[row.pool].saved = true;
  }
  const auto workers = store.Workers(run_id_);
  if (!workers.ok()) return workers.error();
  for (const WorkerRow& row : *workers) {
    const int id = AddWorker(row.pool, row.worker_index, "", row.session_id);
    if (id < 0) continue;
    workers_[static_cast<size_t>(id)].device = row.device;
    workers_[static_cast<size_t>(id)].saved = true;
  }
  for (auto& [name, pool] : pools_) pool.saved = true;
  const auto links = store.Links(run_id_);
  if (!links.ok()) return links.error();
  for (const LinkRow& row : *links) {
    const int id = DescribeLink(row.link, row.from_pool, row.to_pool, row.capacity, row.lanes);
    if (id >= 0) links_[static_cast<size_t>(id)].saved = true;
  }
  const auto steps = store.Steps(run_id_);
  if (!steps.ok()) return steps.error();
  if (!steps->empty()) next_step_ = steps->back().step + 1;
  for (const StepRow& step : *steps) SawVersion(static_cast<uint64_t>(step.version), step.end_ns);
  const auto settings = store.Settings(run_id_);
  if (!settings.ok()) return settings.error();
  for (const SettingRow& row : *settings) settings_[row.key] = {row.value, true};
  return {};
}

Status RunModel::Save(Store& store) {
  for (auto& [name, pool] : pools_) {
    if (std::exchange(pool.saved, true)) continue;
    const PoolRow row{run_id_, name, pool.role, static_cast<int64_t>(pool.workers.size())};
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  for (Worker& worker : workers_) {
    if (std::exchange(worker.saved, true)) continue;
    const WorkerRow row{run_id_, worker.pool, worker.index, worker.session_id, worker.device};
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  for (Link& link : links_) {
    if (std::exchange(link.saved, true)) continue;
    const LinkRow row{run_id_, link.name, link.from_pool, link.to_pool, link.capacity, link.lanes};
    if (auto put = store.Put(row); !put.ok()) return put;
  }
  for (auto& [key, value] : settings_) {
    if (std::exchange(value.second, true)) continue;
    if (auto put = store.Put(SettingRow{run_id_, key, value.first}); !put.ok()) return put;
  }
  return {};
}

int RunModel::AddWorker(std::string_view pool, int64_t index, std::string_view role,
                        const std::string& session_id) {
  Pool& entry = pools_[std::string(pool)];
  if (!role.empty() && entry.role != role) {
    entry.role = role;
    entry.saved = false;
  }
  const auto key = std::make_pair(std::string(pool), index);
  if (const auto found = worker_ids_.find(key); found != worker_ids_.end()) {
    Worker& worker = workers_[static_cast<size_t>(found->second)];
    if (worker.session_id != session_id) {
      worker.session_id = session_id;  // a restarted process took its place
      worker.saved = false;
    }
    return found->second;
  }
  if (workers_.size() >= kMaxWorkers) return -1;
  const int id = static_cast<int>(workers_.size());
  workers_.push_back({std::string(pool), index, session_id});
  worker_ids_.emplace(key, id);
  entry.workers.push_back(id);
  entry.saved = false;
  return id;
}

int RunModel::FindWorker(std::string_view pool, int64_t index) const {
  const auto found = worker_ids_.find(std::make_pair(std::string(pool), index));
  return found == worker_ids_.end() ? -1 : found->second;
}

int RunModel::AddLink(std::string_view name) {
  if (const auto found = link_ids_.find(name); found != link_ids_.end()) return found->second;
  if (name.empty() || links_.size() >= kMaxLinks) return -1;
  const int id = static_cast<int>(links_.size());
  links_.push_back({.name = std::string(name)});
  link_ids_.emplace(name, id);
  return id;
}

int RunModel::DescribeLink(std::string_view name, std::string_view from, std::string_view to,
                           int64_t capacity, int64_t lanes) {
  const int id = AddLink(name);
  if (id < 0) return id;
  Link& link = links_[static_cast<size_t>(id)];
  if (link.from_pool != from || link.to_pool != to || link.capacity != capacity ||
      link.lanes != lanes) {
    link = {std::string(name), std::string(from), std::string(to), capacity, lanes, false,
            link.annotated};
  }
  return id;
}

void RunModel::TakeDevice(int worker, uint64_t device, Activity& activity) {
  Worker& of = workers_[static_cast<size_t>(worker)];
  if (activity.category == Category::kWork && !of.on_device()) {
    of.device = "cuda:" + std::to_string(device);
    of.saved = false;
  }
  if (activity.category != Category::kTransfer || activity.link < 0) return;
  const Link& link = links_[static_cast<size_t>(activity.link)];
  if (link.annotated) {
    const bool sends = link.from_pool == of.pool;
    activity.category = sends ? Category::kBlockedLink : Category::kWaitLink;
    return;
  }
  activity.source = SenderOf(activity.link, worker);
}

uint64_t RunModel::SenderOf(int link, int worker) const {
  const auto pool = pools_.find(links_[static_cast<size_t>(link)].from_pool);
  if (pool == pools_.end() || pool->second.workers.empty()) return kNoValue;
  const Worker& of = workers_[static_cast<size_t>(worker)];
  const auto distance = [&](int id) {
    const Worker& other = workers_[static_cast<size_t>(id)];
    if (id == worker) return 0;
    return other.session_id == of.session_id ? 1 : other.index == of.index ? 2 : 3;
  };
  const auto& ids = pool->second.workers;
  const int sender = *std::min_element(ids.begin(), ids.end(),
                                       [&](int a, int b) { return distance(a) < distance(b); });
  return static_cast<uint64_t>(workers_[static_cast<size_t>(sender)].index);
}

int RunModel::LinkBetween(const std::string& from, const std::string& to, bool directed) {
  for (size_t i = 0; i < links_.size(); ++i) {
    const Link& link = links_[i];
    const bool same = link.from_pool == from && link.to_pool == to;
    const bool reversed = link.from_pool == to && link.to_pool == from;
    if (same || (reversed && !directed)) return static_cast<int>(i);
  }
  return DescribeLink("nccl." + from + "." + to, from, to, 0, 1);
}

void RunModel::AddSetting(std::string_view key, std::string_view value) {
  const auto found = settings_.find(std::string(key));
  if (found != settings_.end() && found->second.first == value) return;
  if (found == settings_.end() && settings_.size() >= kMaxSettings) return;
  settings_[std::string(key)] = {std::string(value), false};
}

void RunModel::WatchVersions(const std::vector<int64_t>& versions) {
  for (const int64_t version : versions) version_since_.try_emplace(version, INT64_MAX);
}

void RunModel::SawVersion(uint64_t version, int64_t ns) {
  if (version == kNoValue) return;
  for (auto& [watched, since] : version_since_) {
    if (static_cast<uint64_t>(watched) > version) break;
    since = std::min(since, ns);
  }
}

int64_t RunModel::VersionSince(int64_t version) const {
  const auto found = version_since_.find(version);
  return found == version_since_.end() ? INT64_MAX : found->second;
}

std::optional<int64_t> RunModel::CountStep(const std::string& session_id, uint32_t tid) {
  const auto source = std::make_pair(session_id, tid);
  if (step_counter_.first.empty()) step_counter_ = source;
  if (step_counter_ != source) return std::nullopt;
  return next_step_++;
}

void RunModel::ReleaseSteps(const std::string& session_id) {
  if (step_counter_.first == session_id) step_counter_ = {};
}

int RunModel::ReadResource(std::string_view text, const std::string& session_id) {
  const auto words = Words(text);
  if (words.empty()) return -1;
  int64_t a = 0;
  int64_t b = 0;
  if (words[0] == "worker" && words.size() == 4 && Number(words[2], a) && a <= INT32_MAX) {
    return AddWorker(words[1], a, words[3], session_id);
  }
  if (words[0] == "link" && words.size() == 6 && Number(words[4], a) && Number(words[5], b)) {
    const int id = DescribeLink(words[1], words[2], words[3], a, b);
    if (id >= 0) links_[static_cast<size_t>(id)].annotated = true;
  } else if (words[0] == "setting" && words.size() >= 2) {
    const size_t value = text.find(words[1]) + words[1].size();
    AddSetting(words[1], value < text.size() ? text.substr(value + 1) : "");
  } else {
    const std::string unread = PlainText(text.substr(0, kMaxUnreadBytes));
    for (int i = 1; i <= kMaxUnread; ++i) {
      const auto [setting, is_new] =
          settings_.try_emplace("unread." + std::to_string(i), unread, false);
      if (is_new || setting->second.first == unread) break;
    }
  }
  return -1;
}

}  // namespace poolscope
