#pragma once

#include <algorithm>
#include <vector>

// Cores of one machine shared evenly by the jobs that run on them: with more jobs than cores each
// goes at cores / jobs of its speed (processor sharing).
namespace poolscope {

class SharedCores {
 public:
  explicit SharedCores(double cores) : cores_(cores) {}

  void Start(double now, int worker, double work_ns) {
    Progress(now);
    jobs_.push_back({worker, work_ns});
  }

  bool empty() const { return jobs_.empty(); }

  // When the next job ends if nothing changes.
  double NextEnd() const {
    double least = jobs_.front().left_ns;
    for (const Job& job : jobs_) least = std::min(least, job.left_ns);
    return since_ + std::max(0.0, least) / Speed();
  }

  // Workers whose jobs have ended by now.
  std::vector<int> Finish(double now) {
    Progress(now);
    std::vector<int> ended;
    for (size_t i = 0; i < jobs_.size();) {
      if (jobs_[i].left_ns > 0.5) {
        ++i;
        continue;
      }
      ended.push_back(jobs_[i].worker);
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return ended;
  }

 private:
  struct Job {
    int worker;
    double left_ns;  // of work at full speed
  };

  double Speed() const {
    return cores_ > 0 ? std::min(1.0, cores_ / static_cast<double>(jobs_.size())) : 1.0;
  }
  void Progress(double now) {
    if (!jobs_.empty()) {
      const double done = (now - since_) * Speed();
      for (Job& job : jobs_) job.left_ns -= done;
    }
    since_ = now;
  }

  const double cores_;
  double since_ = 0;
  std::vector<Job> jobs_;
};

}  // namespace poolscope
