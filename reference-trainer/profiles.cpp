#include "reference-trainer/profiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace poolscope::trainer {
namespace {

// Sources of what all GPUs have in common. Fractions are rounded to 0.05.
//   launch  S. Gray, "Getting Started with CUDA Graphs", NVIDIA technical blog, 2019: kernels of
//           2.9 µs in a row start every 3.8 µs
//   memory  BabelStream (triad)
constexpr std::array kDevices = {
    DeviceProfile{"a100", 19.5e12, 312e12, 0.45, 2039e9, 0.85, 80e9, 0.9e-6, "pcie4",
                  "NVIDIA A100 80GB SXM datasheet (2021); 44-52 % of peak: Narayanan et al. 2021 "
                  "(Megatron-LM), table 1"},
    DeviceProfile{"h100", 67e12, 989e12, 0.40, 3350e9, 0.90, 80e9, 0.9e-6, "pcie5",
                  "NVIDIA H100 SXM datasheet (2023), without sparsity; 38-43 % of peak: Llama Team "
                  "2024 (The Llama 3 Herd of Models), table 4"},
    DeviceProfile{"h200", 67e12, 989e12, 0.40, 4800e9, 0.90, 141e9, 0.9e-6, "pcie5",
                  "NVIDIA H200 SXM datasheet (2024), without sparsity; fractions assumed as h100"},
    DeviceProfile{
        "host", 10e12, 10e12, 0.70, 409.6e9, 0.80, 2000e9, 0, "pcie4",
        "two AMD EPYC 7763 (2021): 128 cores at 2.45 GHz, 32 FLOP a cycle, 16 channels of "
        "DDR4-3200; 2 TB as a DGX A100 has; fractions assumed"},
};

// InfiniBand and PCIe: rate of the physical layer less its coding. 1 direction.
constexpr std::array kLinks = {
    LinkProfile{"nvlink3", 300e9, 0.80, 2.5e-6,
                "NVIDIA A100 datasheet: 600 GB/s both ways; nccl-tests, p2pBandwidthLatencyTest"},
    LinkProfile{
        "nvlink4", 450e9, 0.80, 2.5e-6,
        "NVIDIA H100 datasheet: 900 GB/s both ways; nccl-tests; latency assumed as nvlink3"},
    LinkProfile{"pcie4", 31.5e9, 0.80, 10e-6,
                "PCI Express 4.0 x16: 16 GT/s, 128b/130b; CUDA bandwidthTest from pinned memory"},
    LinkProfile{"pcie5", 63e9, 0.85, 10e-6,
                "PCI Express 5.0 x16: 32 GT/s, 128b/130b; CUDA bandwidthTest from pinned memory"},
    LinkProfile{"ib-hdr", 25e9, 0.95, 1.5e-6,
                "InfiniBand HDR: 200 Gb/s; perftest ib_write_bw, ib_write_lat through a switch"},
    LinkProfile{"ib-ndr", 50e9, 0.95, 1.5e-6,
                "InfiniBand NDR: 400 Gb/s; perftest, fraction and latency assumed as ib-hdr"},
    LinkProfile{
        "100gbe", 12.5e9, 0.95, 30e-6,
        "IEEE 802.3bm 100 Gb/s; TCP payload of 1500-byte frames is 94.9 %; latency assumed"},
};

template <typename T, size_t N>
const T* Find(const std::array<T, N>& table, const std::string& name) {
  const auto at =
      std::find_if(table.begin(), table.end(), [&](const T& each) { return name == each.name; });
  return at == table.end() ? nullptr : &*at;
}

template <typename T, size_t N>
std::string Names(const std::array<T, N>& table) {
  std::vector<const char*> names;
  for (const T& each : table) names.push_back(each.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

const char* PrecisionName(Precision precision) {
  return precision == Precision::kFp32 ? "fp32" : "bf16";
}

std::span<const DeviceProfile> DeviceProfiles() { return kDevices; }
std::span<const LinkProfile> LinkProfiles() { return kLinks; }
const DeviceProfile* FindDeviceProfile(const std::string& name) { return Find(kDevices, name); }
const LinkProfile* FindLinkProfile(const std::string& name) { return Find(kLinks, name); }
std::string KnownDeviceProfiles() { return Names(kDevices); }
std::string KnownLinkProfiles() { return Names(kLinks); }

std::string PrintProfiles() {
  std::string text =
      fmt::format("{:<8}{:>11}{:>11}{:>10}{:>12}{:>10}{:>9}{:>10}  {}\n", "device", "fp32", "bf16",
                  "achieved", "memory", "achieved", "size", "launch", "host link; source");
  for (const DeviceProfile& d : kDevices) {
    text += fmt::format(
        "{:<8}{:>6.4g} TF/s{:>6.4g} TF/s{:>8.0f} %{:>7.4g} GB/s{:>8.0f} %{:>6.4g} GB"
        "{:>7.2g} µs  {}; {}\n",
        d.name, d.fp32_flops / 1e12, d.bf16_flops / 1e12, d.compute_fraction * 100,
        d.bytes_per_second / 1e9, d.memory_fraction * 100, d.memory_bytes / 1e9,
        d.launch_seconds * 1e6, d.host_link, d.source);
  }
  text += fmt::format("\n{:<8}{:>11}{:>10}{:>10}  {}\n", "link", "one way", "achieved", "latency",
                      "source");
  for (const LinkProfile& l : kLinks) {
    text +=
        fmt::format("{:<8}{:>6.4g} GB/s{:>8.0f} %{:>7.3g} µs  {}\n", l.name,
                    l.bytes_per_second / 1e9, l.fraction * 100, l.latency_seconds * 1e6, l.source);
  }
  return text;
}

}  // namespace poolscope::trainer
