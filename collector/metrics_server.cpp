#include "collector/metrics_server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <charconv>
#include <thread>

namespace poolscope {

struct MetricsServer::Impl {
  httplib::Server server;
  std::thread thread;
};

Result<MetricsAddress> ParseMetricsAddress(const std::string& text) {
  MetricsAddress address;
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (colon != std::string::npos && colon > 0) address.host = text.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || error != std::errc() || end != port.data() + port.size() ||
      address.port < 0 || address.port > 65535) {
    return Error{
        fmt::format("'{}' is no address for metrics: write :9464 or 127.0.0.1:9464 "
                    "(port 0 takes a free one)",
                    text)};
  }
  return address;
}

MetricsServer::MetricsServer() : impl_(std::make_unique<Impl>()) {}

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const MetricsAddress& address,
                                                            const Metrics& metrics) {
  std::unique_ptr<MetricsServer> started(new MetricsServer);
  httplib::Server& server = started->impl_->server;
  // Not SO_REUSEPORT, the library's default: two servers would then share a port without a word.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  // A connection takes a thread while it lasts, so none lasts: idle ones must not starve a scrape.
  server.new_task_queue = [] { return new httplib::ThreadPool(8); };
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(1);
  server.set_read_timeout(1);
  server.set_payload_max_length(4096);
  server.Get("/metrics", [&metrics](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics.Serialize(), "text/plain; version=0.0.4; charset=utf-8");
  });
  server.Get("/healthz", [&metrics](const httplib::Request&, httplib::Response& response) {
    const bool healthy = metrics.Healthy();
    response.status = healthy ? 200 : 503;
    response.set_content(healthy ? "ok\n" : "no round went well in the last ten seconds\n",
                         "text/plain");
  });
  if (address.port == 0) {
    started->port_ = server.bind_to_any_port(address.host);
  } else {
    started->port_ = server.bind_to_port(address.host, address.port) ? address.port : -1;
  }
  if (started->port_ <= 0) {
    return Error{
        fmt::format("cannot serve metrics at {}:{} (in use, or not an address of this "
                    "machine): give another with --metrics",
                    address.host, address.port)};
  }
  const bool v6 = address.host.find(':') != std::string::npos;
  started->url_ = fmt::format("http://{}{}{}:{}/metrics", v6 ? "[" : "", address.host,
                              v6 ? "]" : "", started->port_);
  started->impl_->thread = std::thread([&server] { server.listen_after_bind(); });
  // stop() before the loop runs would be lost.
  while (!server.is_running()) std::this_thread::yield();
  return started;
}

MetricsServer::~MetricsServer() {
  if (!impl_->thread.joinable()) return;
  impl_->server.stop();
  impl_->thread.join();
}

}  // namespace poolscope
