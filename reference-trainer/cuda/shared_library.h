#pragma once

#include <string>

namespace poolscope::trainer::cuda {

// A library of the CUDA Toolkit, by its name: where the system finds it, else in the toolkit's
// folder. Functions are looked up once it is open. Never closed.
class SharedLibrary {
 public:
  explicit SharedLibrary(const std::string& name);

  template <typename Function>
  void Find(const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(Symbol(symbol));
  }
  // What failed first, one line, or "".
  const std::string& error() const { return error_; }

 private:
  void* Symbol(const char* symbol);

  const std::string name_;
  void* library_ = nullptr;
  std::string error_;
};

}  // namespace poolscope::trainer::cuda
