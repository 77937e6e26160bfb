// The part of SessionDrain that makes annotations of what a mapping gives a meaning.
#include "collector/session_drain.h"

namespace poolscope {
namespace {

// The number of the pool's only worker; kNoValue: it has none, or several.
uint64_t OnlyWorker(const RunModel& model, const std::string& pool) {
  const auto found = model.pools().find(pool);
  if (found == model.pools().end() || found->second.workers.size() != 1) return kNoValue;
  const auto id = static_cast<size_t>(found->second.workers.front());
  return static_cast<uint64_t>(model.workers()[id].index);
}

}  // namespace

bool SessionDrain::Holds(const Mapping::Period& period, int64_t ns) const {
  const auto since = [&](int64_t version) {
    return version == 0           ? INT64_MIN
           : version == INT64_MAX ? INT64_MAX
                                  : model_.VersionSince(version);
  };
  const int64_t age_ns = ns - model_.start_ns();
  return age_ns >= period.from_ns && age_ns < period.until_ns && ns >= since(period.from_version) &&
         ns < since(period.until_version);
}

Result<int> SessionDrain::WorkerAt(Store& store, Thread& thread, int64_t ns, Round& round) {
  if (thread.claims.empty()) return thread.worker;
  const Mapping::WorkerMatch none;
  const Mapping::WorkerMatch* holds = &none;
  for (const Mapping::WorkerMatch& match : thread.claims) {
    if (!Holds(match.rule->period, ns)) continue;
    holds = &match;
    break;
  }
  if (holds->rule == thread.claim) {
    thread.claim_ns = std::max(thread.claim_ns, ns);
    return thread.worker;
  }
  const int worker = holds->rule == nullptr ? -1 : WorkerOf(*holds, thread.tid);
  if (ns < thread.claim_ns) return worker;  // it comes late
  if (thread.claim_ns != 0) {
    model_.AddSetting("mapping.changed_ns", std::to_string(ns));
    const auto shared = [&](const auto& entry) {
      return &entry.second != &thread && entry.second.worker == thread.worker &&
             (entry.first & kMappedTid) == 0 && entry.second.last_ns != 0 && !entry.second.exited;
    };
    if (thread.worker >= 0 && std::none_of(threads_.begin(), threads_.end(), shared)) {
      round.gone.push_back({thread.worker, ns});
    }
  }
  thread.claim = holds->rule;
  thread.claim_ns = ns;
  thread.worker = worker;
  if (worker < 0) {
    facts_.AddShift(thread.tid, ns, "", -1);
  } else {
    const RunModel::Worker& now = model_.workers()[static_cast<size_t>(worker)];
    facts_.AddShift(thread.tid, ns, now.pool, now.index);
  }
  if (mapping_.ranges_by_thread()) mapped_.clear();
  if (auto saved = SaveThread(store, thread.tid, thread); !saved.ok()) return saved.error();
  return worker;
}

Result<SessionDrain::Thread*> SessionDrain::MappedThread(Store& store, Thread& thread) {
  if (thread.mapped != nullptr && thread.mapped->worker == thread.worker) return thread.mapped;
  const uint32_t tid = thread.tid | static_cast<uint32_t>(kMappedTid);
  Thread& mapped = threads_[tid];
  mapped.tid = tid;
  mapped.name = thread.name + " (as mapped)";
  mapped.worker = thread.worker;
  if (auto saved = SaveThread(store, tid, mapped); !saved.ok()) return saved.error();
  thread.mapped = &mapped;
  return &mapped;
}

Status SessionDrain::TakeStep(Store& store, Meaning& meaning, const Carried& carried,
                              const Event& event, Thread& thread, Round& round) {
  Activity activity;
  activity.category = Category::kStep;
  activity.mapped = true;
  activity.on_thread = false;
  activity.worker = thread.worker;
  activity.begin_ns = activity.end_ns = clock_.Recent(event.end_ns());
  TakeRuleFields(*meaning.step, carried, activity);
  if (activity.step == kNoValue) {
    const auto number = model_.CountStep(head().session_id, thread.tid);
    if (!number.has_value()) return {};
    activity.step = static_cast<uint64_t>(*number);
    SayInferred(meaning, "step", "counted on one thread");
  }
  if (activity.version == kNoValue) {
    activity.version = activity.step + 1;
    SayInferred(meaning, "version", "one more than the number of the step that made it");
  }
  model_.SawVersion(activity.version, activity.begin_ns);
  round.activities.push_back(activity);
  auto mapped = MappedThread(store, thread);
  if (!mapped.ok()) return mapped.error();
  return mapped_events_.Write(store, event, activity, "", (*mapped)->marks.batch);
}

Status SessionDrain::TakeMapped(Store& store, Meaning& meaning, const Carried& carried,
                                const Event& event, Thread& thread, Activity activity,
                                Round& round) {
  TakeRuleFields(*meaning.rule, carried, activity);
  const bool mark = activity.category == Category::kDiscard;
  if (mark) {
    activity.begin_ns = activity.end_ns;
    activity.on_thread = false;
  }
  Infer(meaning, activity);
  auto mapped = MappedThread(store, thread);
  if (!mapped.ok()) return mapped.error();
  Track& track = mark ? (*mapped)->marks : (*mapped)->ranges;
  const std::string link =
      activity.link < 0 ? "" : model_.links()[static_cast<size_t>(activity.link)].name;
  const Mapping::Link* described = link.empty() ? nullptr : mapping_.FindLink(link);
  const bool sent = activity.category == Category::kTransfer && activity.stage == Stage::kWire;
  if (sent && described != nullptr && described->direct) {
    Activity queued = activity;
    queued.stage = Stage::kQueued;
    queued.end_ns = queued.begin_ns;
    queued.on_thread = queued.on_device = false;
    Event at = event;
    at.duration_ns = 0;
    SayInferred(meaning, link + ".queued", "never: the mapping calls the link direct");
    round.activities.push_back(queued);
    if (auto put = mapped_events_.Write(store, at, queued, link, track.batch); !put.ok()) {
      return put;
    }
  }
  round.activities.push_back(activity);
  return mapped_events_.Write(store, event, activity, link, track.batch);
}

void SessionDrain::SayInferred(Meaning& meaning, const std::string& what, const char* how) {
  if (meaning.inferred.insert(what).second) model_.AddSetting("inferred." + what, how);
}

void SessionDrain::Infer(Meaning& meaning, Activity& activity) {
  if (activity.link < 0) return;
  const RunModel::Link& link = model_.links()[static_cast<size_t>(activity.link)];
  if (activity.category == Category::kWaitLink) {
    if (activity.sequence == kNoValue) {
      SayInferred(meaning, link.name + ".waits", "ended by the last message that arrived in them");
    }
    return;
  }
  if (activity.category != Category::kTransfer && activity.category != Category::kDiscard) {
    return;
  }
  const auto end = [&](const std::string& pool, uint64_t& number, const char* what) {
    if (number != kNoValue || pool.empty()) return;
    const RunModel::Worker* own =
        activity.worker < 0 ? nullptr : &model_.workers()[static_cast<size_t>(activity.worker)];
    number = own != nullptr && own->pool == pool ? static_cast<uint64_t>(own->index)
                                                 : OnlyWorker(model_, pool);
    if (number != kNoValue) {
      SayInferred(meaning, link.name + what,
                  "the worker whose thread it is, or the pool's only one");
    }
  };
  end(link.from_pool, activity.source, ".source");
  end(link.to_pool, activity.destination, ".destination");
  if (activity.category == Category::kTransfer && activity.sequence == kNoValue &&
      activity.source != kNoValue) {
    const auto [found, fresh] =
        sequences_.try_emplace({activity.link, activity.stage, activity.source});
    if (fresh) found->second = facts_.Sequence(link.name, activity.stage, activity.source);
    activity.sequence = found->second++;
    SayInferred(meaning, link.name + ".sequence",
                "each stage's messages of a sender counted in the order they ended");
  }
}

}  // namespace poolscope
