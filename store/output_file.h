#pragma once

#include <filesystem>
#include <string_view>

#include "trace/result.h"

namespace poolscope {

// Makes `path` hold exactly `bytes`. A regular file is written beside it and renamed, so that a
// reader sees the old or the new one and a full disk leaves the old one; what else stands there (a
// device, a pipe) is written to, never replaced. Links are followed. Error: with its cause.
Status WriteOutputFile(const std::filesystem::path& path, std::string_view bytes);

}  // namespace poolscope
