#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace poolscope::trainer {

// Carries packets between the processes of a run. One thread per process does all of it: it sends,
// receives and calls the handlers, so that what only handlers and tasks touch needs no lock.
//
// It looks for packets at intervals, since a network library that waits would burn a core: after
// 1/32 of the time since the last packet, 20 µs at least, 1 ms at most. So looking makes no
// exchange longer by more than 1/32, and an idle process looks a thousand times a second. What this
// process has to do itself wakes the thread at once.
class Transport {
 public:
  using Bytes = std::vector<uint8_t>;
  using Task = std::function<void()>;
  using Handler = std::function<void(int source, Bytes bytes)>;

  Transport(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  virtual ~Transport() = default;  // Start() and then Close(), or neither
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Who gets packets of `tag`: those of one source in the order of their sending. Before Start().
  void On(int tag, Handler handler) { handlers_[tag] = std::move(handler); }
  void Start();

  // Any thread from here on. `sent` is called when the bytes have left this process.
  void Send(int rank, int tag, Bytes bytes, Task sent = {});
  // Runs `task` on the transport's thread, soon or at an instant of NowNs(). One that would run
  // after Close() is dropped.
  void Post(Task task);
  void At(int64_t ns, Task task);

  // Waits until every process has called it; until then, packets of others are still handled.
  void Close();

 protected:
  // On the transport's thread. Begins to send to another process.
  virtual void Begin(int rank, int tag, Bytes bytes, Task sent) = 0;
  // Looks once for packets that have come or gone. True: there were some.
  virtual bool Look() = 0;
  virtual bool Sending() const = 0;
  // Called again and again when this process has nothing more to send: whether all have come to
  // this point.
  virtual bool AllClosed() = 0;

  void Deliver(int source, int tag, Bytes bytes) { handlers_.at(tag)(source, std::move(bytes)); }

 private:
  void Run();
  bool RunTasks();

  const int rank_, ranks_;
  std::map<int, Handler> handlers_;  // constant after Start()
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::vector<Task> tasks_;
  std::multimap<int64_t, Task> timers_;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace poolscope::trainer
