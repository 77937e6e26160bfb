#include "reference-trainer/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace poolscope::trainer::cuda {

SharedLibrary::SharedLibrary(const std::string& name) : name_(name) {
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string& folder :
       {std::string(), home ? std::string(home) + "/lib64/" : std::string(),
        std::string("/usr/local/cuda/lib64/")}) {
    library_ = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_) return;
  }
  error_ = fmt::format("cannot load {}: {}", name, dlerror());
}

void* SharedLibrary::Symbol(const char* symbol) {
  void* const found = library_ ? dlsym(library_, symbol) : nullptr;
  if (!found && error_.empty()) error_ = fmt::format("{} has no {}", name_, symbol);
  return found;
}

}  // namespace poolscope::trainer::cuda
