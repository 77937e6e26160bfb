#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "collector/collector.h"
#include "collector/metrics_server.h"
#include "tests/support/fake_session.h"
#include "tests/support/temp_folder.h"

namespace poolscope {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

// An annotated run of two pools and one link: the worker was busy for 600 of the first 1000 ms.
class Endpoint : public ::testing::Test {
 protected:
  Endpoint() {
    options_.store = files_.path() / "run.db";
    options_.run_folders = {folder_.path()};
    options_.owners = {static_cast<uint32_t>(geteuid())};
    session_ = std::make_unique<FakeSession>(
        FakeSession::Options{.folder = folder_.path(), .command = "metrics test"});
    domain_ = session_->Domain("poolscope");
    session_->Resource(domain_, 7, "worker compute 0 compute");
    session_->Resource(domain_, 8, "worker update 0 update");
    session_->Resource(domain_, 0, "link gradients compute update 8 1");
    auto collector = Collector::Open(options_, &metrics_);
    EXPECT_TRUE(collector.ok());
    collector_ = std::move(*collector);
    (void)collector_->Drain();  // the run's clock starts
    auto store = Store::Open(options_.store, Store::Mode::kRead);
    const auto settings = store->Settings(store->FindRun("")->run_id);
    for (const SettingRow& row : *settings) {
      if (row.key.starts_with("clock.offset_ns.")) offset_ = std::stoll(row.value);
    }
    // A whole window of the epoch's grid, some seconds ago, in ticks.
    const int64_t now = MonotonicNs() + offset_;
    at_ = (now / 1'000'000'000 - 4) * 1'000'000'000 - offset_;
    FillWindow();
    (void)collector_->Drain();
    server_ = std::move(*MetricsServer::Start({"127.0.0.1", 0}, metrics_));
  }

  void FillWindow() {
    const uint32_t transfer = session_->Schema("poolscope.transfer", {});
    const uint32_t step = session_->Schema("poolscope.step", {});
    session_->Range(7, at_, at_ + 600'000'000, session_->Name("forward"), 1, domain_);
    const uint64_t wire[] = {
        transfer | uint64_t{11} << 32, 2, 0, 0, 1, 3, kNoValue, 4000, 2000, 5, 0, 0};
    session_->Range(9, at_ + 600'000'000, at_ + 700'000'000, session_->Name("gradients"), 2,
                    domain_, wire);
    const uint64_t apply[] = {transfer | uint64_t{11} << 32, 4, 0, 0, 1, 3, 4, 4000, 2000, 5, 0, 0};
    session_->Range(8, at_ + 700'000'000, at_ + 900'000'000, session_->Name("gradients"), 2,
                    domain_, apply);
    const uint64_t made[] = {step | uint64_t{5} << 32, 5, 6, 512, 4, std::bit_cast<uint64_t>(1.25)};
    session_->Mark(8, at_ + 900'000'000, session_->Name("step"), 9, domain_, made);
    session_->Lose(LossCause::kPayloadTooLarge, 3, at_);
    // The next window has work too, so that the last one closed is not idle.
    session_->Range(7, at_ + 1'000'000'000, at_ + 1'600'000'000, session_->Name("forward"), 1,
                    domain_);
    session_->Push(7, at_ + 1'600'000'000, session_->Name("forward"), 1, domain_);
  }

  std::string Get(const char* path) {
    httplib::Client client("127.0.0.1", server_->port());
    const auto response = client.Get(path);
    return response ? response->body : "";
  }

  TempFolder folder_{true};
  TempFolder files_;
  CollectorOptions options_;
  Metrics metrics_{"test"};
  std::unique_ptr<FakeSession> session_;
  std::unique_ptr<Collector> collector_;
  std::unique_ptr<MetricsServer> server_;
  uint32_t domain_ = 0;
  int64_t offset_ = 0;
  int64_t at_ = 0;
};

TEST(MetricsDocument, IsWhatDocsMetricsSays) {
  EXPECT_EQ(ReadFile(POOLSCOPE_SOURCE "/docs/metrics.md"), MetricsDocument())
      << "run: poolscope collect --print-metrics-doc > docs/metrics.md";
}

TEST_F(Endpoint, Values_AreThoseOfTheRun) {
  const std::string text = Get("/metrics");
  const std::string run = "run=\"f0e0d0c0\"";
  EXPECT_THAT(text,
              HasSubstr("poolscope_link_raw_bytes_total{link=\"gradients\"," + run + "} 4000"));
  EXPECT_THAT(text,
              HasSubstr("poolscope_link_wire_bytes_total{link=\"gradients\"," + run + "} 2000"));
  EXPECT_THAT(text, HasSubstr("poolscope_link_capacity{link=\"gradients\"," + run + "} 8"));
  EXPECT_THAT(text, HasSubstr("poolscope_version{" + run + "} 6"));
  EXPECT_THAT(text, HasSubstr("poolscope_version_lag_sum{" + run + "} 1"));
  EXPECT_THAT(text, HasSubstr("poolscope_tokens_total{" + run + "} 512"));
  EXPECT_THAT(text, HasSubstr("poolscope_loss{" + run + "} 1.25"));
  EXPECT_THAT(text,
              HasSubstr("poolscope_event_losses_total{cause=\"payload_too_large\"," + run + "} 3"));
  EXPECT_THAT(text, HasSubstr("poolscope_pool_workers{pool=\"compute\"," + run + "} 1"));
  EXPECT_THAT(text, HasSubstr("poolscope_link_transfer_seconds_sum{link=\"gradients\"," + run +
                              ",stage=\"wire\"} 0.1"));
  EXPECT_EQ(Get("/healthz"), "ok\n");
}

TEST_F(Endpoint, PromtoolFindsNothingToSay) {
  const auto file = files_.path() / "metrics.txt";
  std::ofstream(file) << Get("/metrics");
  const std::string command =
      "promtool check metrics < " + file.string() + " > " + file.string() + ".out 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << ReadFile(file.string() + ".out");
  EXPECT_EQ(ReadFile(file.string() + ".out"), "");
}

TEST_F(Endpoint, IdleConnections_DoNotKeepAScrapeWaiting) {
  std::vector<int> idle;
  for (int i = 0; i < 16; ++i) {
    idle.push_back(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(idle.back(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  httplib::Client client("127.0.0.1", server_->port());
  client.set_read_timeout(20);  // they took 40 s
  const auto response = client.Get("/healthz");
  EXPECT_TRUE(response && response->body == "ok\n");
  for (const int connection : idle) close(connection);
}

TEST_F(Endpoint, PortInUse_IsSaidInOneLine) {
  const auto second = MetricsServer::Start({"127.0.0.1", server_->port()}, metrics_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(server_->port())));
}

TEST_F(Endpoint, EndedRun_IsForgottenByItsSeries) {
  EXPECT_THAT(Get("/metrics"), HasSubstr("run=\"f0e0d0c0\""));
  metrics_.Forget("f0e0d0c0b0a090807060504030201000");
  EXPECT_THAT(Get("/metrics"), ::testing::Not(HasSubstr("run=\"f0e0d0c0\"")));
}

TEST(MetricsAddress, AllFormsAreRead) {
  EXPECT_EQ(ParseMetricsAddress(":9464")->host, "127.0.0.1");
  EXPECT_EQ(ParseMetricsAddress(":9464")->port, 9464);
  EXPECT_EQ(ParseMetricsAddress("9464")->port, 9464);
  EXPECT_EQ(ParseMetricsAddress("0.0.0.0:0")->host, "0.0.0.0");
  EXPECT_EQ(ParseMetricsAddress("[::1]:80")->host, "::1");
  for (const char* bad : {"", ":", "host", ":99999", ":12x", "host:-1"}) {
    EXPECT_FALSE(ParseMetricsAddress(bad).ok()) << bad;
  }
}

// A real Prometheus on a port of its own.
TEST_F(Endpoint, RealPrometheus_ScrapesAndAnswersABusyRatioQuery) {
  std::ofstream(files_.path() / "prometheus.yml")
      << "global: {scrape_interval: 200ms}\nscrape_configs:\n- job_name: poolscope\n"
      << "  static_configs: [{targets: ['127.0.0.1:" << server_->port() << "']}]\n";
  const int port = FreePort();
  const std::string listen = "--web.listen-address=127.0.0.1:" + std::to_string(port);
  const std::string config = "--config.file=" + (files_.path() / "prometheus.yml").string();
  const std::string data = "--storage.tsdb.path=" + (files_.path() / "tsdb").string();
  const pid_t prometheus = fork();
  if (prometheus == 0) {
    std::freopen((files_.path() / "prometheus.log").c_str(), "w", stderr);
    execlp("prometheus", "prometheus", config.c_str(), data.c_str(), listen.c_str(), nullptr);
    _exit(127);
  }
  httplib::Client client("127.0.0.1", port);
  client.set_connection_timeout(1);
  client.set_read_timeout(2);
  std::string value;
  for (int i = 0; i < 300 && value.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto response = client.Get("/api/v1/query?query=poolscope_pool_busy_ratio");
    if (!response || response->status != 200) continue;
    const auto json = nlohmann::json::parse(response->body, nullptr, false);
    for (const auto& result : json["data"]["result"]) {
      if (result["metric"]["pool"] == "compute") value = result["value"][1];
    }
  }
  kill(prometheus, SIGTERM);
  int status = 0;
  waitpid(prometheus, &status, 0);
  // The last closed window: an open range of work fills it.
  EXPECT_EQ(value, "1") << ReadFile(files_.path() / "prometheus.log");
}

}  // namespace
}  // namespace poolscope
