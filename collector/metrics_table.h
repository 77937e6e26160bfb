#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace poolscope {

// Every metric, once. From this table come the endpoint's families and docs/metrics.md.
enum class MetricType { kGauge, kCounter, kHistogram };

struct MetricSpec {
  const char* name;
  MetricType type;
  const char* labels;  // comma-separated
  const char* help;
};

enum class Metric : size_t {
  kPoolBusy,
  kPoolState,
  kPoolWorkers,
  kWorkerBusy,
  kLinkRawBytes,
  kLinkWireBytes,
  kLinkTransfers,
  kLinkDiscarded,
  kLinkRetries,  // of FaultKind, in its order:
  kLinkCorrupt,
  kLinkDuplicates,
  kLinkLost,
  kLinkDepth,
  kLinkCapacity,
  kLinkTransferSeconds,
  kLinkTraffic,
  kLinkExposed,
  kNcclOperations,
  kNcclBandwidth,
  kNcclWait,
  kVersion,
  kVersionLag,
  kSteps,
  kStepSeconds,
  kTokens,
  kLoss,
  kDeviceSm,
  kDeviceDram,
  kDeviceTensor,
  kDeviceMemoryUsed,
  kDeviceMemory,
  kDeviceClock,
  kDevicePcie,
  kDeviceNvlink,
  kEvents,
  kEventLosses,
  kFindingActive,
  kFindingSpeedup,
  kDrainSeconds,
  kLag,
  kSessions,
  kRingFill,
  kFailures,
  kBuildInfo,
  kCount
};

inline constexpr std::array<MetricSpec, static_cast<size_t>(Metric::kCount)> kMetrics = {{
    {"poolscope_pool_busy_ratio", MetricType::kGauge, "run,pool",
     "Busy time of the pool's workers over wall time in the last closed window, mean over workers"},
    {"poolscope_pool_state_ratio", MetricType::kGauge, "run,pool,state",
     "Share of the last closed window that the pool's workers were in the state, mean over "
     "workers"},
    {"poolscope_pool_workers", MetricType::kGauge, "run,pool",
     "Workers of the pool in the last closed window"},
    {"poolscope_worker_busy_ratio", MetricType::kGauge, "run,pool,worker",
     "Busy time of one worker over wall time in the last closed window"},
    {"poolscope_link_raw_bytes_total", MetricType::kCounter, "run,link",
     "Bytes that crossed the link, before encoding"},
    {"poolscope_link_wire_bytes_total", MetricType::kCounter, "run,link",
     "Bytes that crossed the link's wire, after encoding, what was sent again included"},
    {"poolscope_link_transfers_total", MetricType::kCounter, "run,link",
     "Messages that crossed the link"},
    {"poolscope_link_discarded_total", MetricType::kCounter, "run,link",
     "Messages of the link that were thrown away (stale, aborted)"},
    {"poolscope_link_retries_total", MetricType::kCounter, "run,link",
     "Parts of messages that were sent again"},
    {"poolscope_link_corrupt_total", MetricType::kCounter, "run,link",
     "Parts of messages that arrived damaged"},
    {"poolscope_link_duplicates_total", MetricType::kCounter, "run,link",
     "Parts of messages that arrived once more"},
    {"poolscope_link_lost_total", MetricType::kCounter, "run,link",
     "Messages that did not arrive (best effort)"},
    {"poolscope_link_depth", MetricType::kGauge, "run,link",
     "Messages in the link's buffers, time-weighted mean of the last closed window"},
    {"poolscope_link_capacity", MetricType::kGauge, "run,link",
     "Messages that the link's buffers may hold; 0 unknown"},
    {"poolscope_link_transfer_seconds", MetricType::kHistogram, "run,link,stage",
     "Time of one stage of a transfer: queued, encode, wire, decode, apply; receive is "
     "the receiving process' part of wire"},
    {"poolscope_link_traffic_ratio", MetricType::kGauge, "run,link",
     "Traffic share: a sending worker's own encode, wire and decode time over wall time, mean"},
    {"poolscope_link_exposed_ratio", MetricType::kGauge, "run,link",
     "Exposed share: time that a worker of either end waited because of the link over wall time, "
     "mean"},
    {"poolscope_nccl_operations_total", MetricType::kCounter, "run,pools,function",
     "NCCL's operations on communicators whose ranks work for these pools"},
    {"poolscope_nccl_bus_bandwidth_bytes_per_second", MetricType::kGauge, "run,pools,function",
     "Bus bandwidth, as nccl-tests define it, of the operations in their newest window, from the "
     "last rank's start to the last one's end"},
    {"poolscope_nccl_wait_seconds_total", MetricType::kCounter, "run,pools,function",
     "Time that ranks waited in an operation for the last one to start, sum over ranks"},
    {"poolscope_version", MetricType::kGauge, "run", "Newest version of the weights"},
    {"poolscope_version_lag", MetricType::kHistogram, "run",
     "Version lag of applied messages, in optimizer updates"},
    {"poolscope_steps_total", MetricType::kCounter, "run", "Optimizer updates made"},
    {"poolscope_step_seconds", MetricType::kHistogram, "run",
     "Time from one optimizer update to the next"},
    {"poolscope_tokens_total", MetricType::kCounter, "run", "Tokens accepted by optimizer updates"},
    {"poolscope_loss", MetricType::kGauge, "run", "Training loss of the newest optimizer update"},
    {"poolscope_device_sm_ratio", MetricType::kGauge, "device,source",
     "Source nvml: share of time in which a kernel ran on the device, on however few of its "
     "multiprocessors. Source pm_sampling: share of cycles in which a multiprocessor was active, "
     "mean over them"},
    {"poolscope_device_dram_ratio", MetricType::kGauge, "device,source",
     "Source nvml: share of time in which the device's memory was read or written. Source "
     "pm_sampling: its throughput over its peak"},
    {"poolscope_device_tensor_ratio", MetricType::kGauge, "device,source",
     "Share of cycles in which the device's tensor cores were active"},
    {"poolscope_device_memory_used_bytes", MetricType::kGauge, "device,source",
     "Memory of the device that is in use, by all processes"},
    {"poolscope_device_memory_bytes", MetricType::kGauge, "device,source",
     "Memory of the device in all"},
    {"poolscope_device_clock_hertz", MetricType::kGauge, "device,source,clock",
     "Clock of the device: sm or memory"},
    {"poolscope_device_pcie_bytes_per_second", MetricType::kGauge, "device,source,direction",
     "What the device sent or received over PCIe; source nvml: measured over 20 ms"},
    {"poolscope_device_nvlink_bytes_per_second", MetricType::kGauge, "device,source,direction",
     "What the device sent or received over all its NVLinks"},
    {"poolscope_events_total", MetricType::kCounter, "run", "Events stored"},
    {"poolscope_event_losses_total", MetricType::kCounter, "run,cause",
     "Events known to be missing, by cause"},
    {"poolscope_finding_active", MetricType::kGauge, "run,rule,subject",
     "1 while the advisor's finding holds, 0 once it has cleared"},
    {"poolscope_finding_predicted_speedup_ratio", MetricType::kGauge, "run,rule,subject",
     "Predicted speedup of the finding's recommendation, 1 where there is none"},
    {"poolscope_collector_drain_seconds", MetricType::kHistogram, "",
     "Time of one round: rings to committed store"},
    {"poolscope_collector_lag_seconds", MetricType::kGauge, "",
     "Time from the start of one round to the start of the next: how old an event may be before it "
     "is stored"},
    {"poolscope_collector_sessions", MetricType::kGauge, "", "Live sessions being drained"},
    {"poolscope_collector_ring_fill_ratio", MetricType::kGauge, "",
     "How full the fullest ring was at the last round"},
    {"poolscope_collector_failures_total", MetricType::kCounter, "",
     "Rounds that failed and were begun again from the store"},
    {"poolscope_build_info", MetricType::kGauge, "version", "Always 1; the label says which build"},
}};

// docs/metrics.md, as it should be.
std::string MetricsDocument();

}  // namespace poolscope
