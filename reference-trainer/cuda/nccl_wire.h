#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference-trainer/wire_link.h"

// Wires between the GPUs of this process by NCCL. A build without it has the same functions, of
// which NcclUnavailable says so.
namespace poolscope::trainer {

// Why there can be no wires between these devices, one line, or "". Two different ones at least.
std::string NcclUnavailable(const std::vector<int>& devices);

// A wire between workers on devices: senders[i] and receivers[i] are those of worker i. Bytes go
// from the host to the sender's device, by ncclSend and ncclRecv to the receiver's, and to the host
// again. Throws std::runtime_error, one line.
std::unique_ptr<Wire> MakeNcclWire(const std::vector<int>& senders,
                                   const std::vector<int>& receivers);

}  // namespace poolscope::trainer
