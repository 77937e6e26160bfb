#pragma once

#include <memory>
#include <string>

#include "collector/metrics.h"
#include "trace/result.h"

namespace poolscope {

struct MetricsAddress {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: a free one
};
// "HOST:PORT", ":PORT" or "PORT"; without a host it is loopback.
Result<MetricsAddress> ParseMetricsAddress(const std::string& text);

// Serves /metrics and /healthz from a thread of its own until destroyed.
class MetricsServer {
 public:
  // `metrics` outlives the server. Error: the port is in use, or the address is not ours.
  static Result<std::unique_ptr<MetricsServer>> Start(const MetricsAddress& address,
                                                      const Metrics& metrics);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  const std::string& url() const { return url_; }  // of /metrics
  int port() const { return port_; }

 private:
  struct Impl;
  MetricsServer();
  std::unique_ptr<Impl> impl_;
  std::string url_;
  int port_ = 0;
};

}  // namespace poolscope
