#include "advisor/run_data.h"

#include <algorithm>
#include <cstdlib>

namespace poolscope {

std::optional<double> RunData::Number(const std::string& key) const {
  const auto found = settings.find(key);
  if (found == settings.end() || found->second.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(found->second.c_str(), &end);
  if (*end != '\0' || !(value - value == 0)) return std::nullopt;
  return value;
}

std::string RunData::Text(const std::string& key, const std::string& otherwise) const {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : found->second;
}

const PoolRow* RunData::Pool(const std::string& name) const {
  for (const PoolRow& pool : pools) {
    if (pool.pool == name) return &pool;
  }
  return nullptr;
}

namespace {

// Moves the rows into `to`; the error where there is one.
template <typename T>
Status Take(Result<std::vector<T>> rows, std::vector<T>& to) {
  if (!rows) return rows.error();
  to = std::move(*rows);
  return {};
}

}  // namespace

Result<RunData> ReadRunData(const Store& store, const std::string& run) {
  Result<RunRow> row = store.FindRun(run);
  if (!row) return row.error();
  RunData data;
  data.run = *row;
  const std::string& id = data.run.run_id;
  std::vector<SettingRow> settings;
  for (const Status& status :
       {Take(store.Processes(id), data.processes), Take(store.Threads(id), data.threads),
        Take(store.Pools(id), data.pools), Take(store.Workers(id), data.workers),
        Take(store.Links(id), data.links), Take(store.Settings(id), settings),
        Take(store.Steps(id), data.steps), Take(store.EventLosses(id), data.losses),
        Take(store.OpenRanges(id), data.open_ranges)}) {
    if (!status) return status.error();
  }
  for (SettingRow& setting : settings) data.settings[setting.key] = std::move(setting.value);
  std::sort(data.steps.begin(), data.steps.end(), [](const StepRow& a, const StepRow& b) {
    return a.end_ns != b.end_ns ? a.end_ns < b.end_ns : a.step < b.step;
  });
  return data;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace poolscope
