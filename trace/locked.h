#pragma once

#include <pthread.h>

namespace poolscope {

// Holds a mutex for a scope. A pthread mutex, not std::mutex: a forked child makes it anew.
class Locked {
 public:
  explicit Locked(pthread_mutex_t* mutex) : mutex_(mutex) { pthread_mutex_lock(mutex_); }
  ~Locked() { pthread_mutex_unlock(mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

}  // namespace poolscope
