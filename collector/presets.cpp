#include "collector/presets.h"

namespace poolscope {
namespace {

constexpr char kReferenceTrainer[] =
    R"(# The reference trainer's threads. It marks all else itself (poolscope/annotate.h).
[[worker]]
thread = "compute/*"
pool = "compute"
index = "*"

[[worker]]
thread = "update/*"
pool = "update"
index = "*"
)";

// Names of DeepSpeed's ranges: its decorator instrument_w_nvtx names them by the functions'
// qualified names.
constexpr char kZeroOffload[] =
    R"(# ZeRO-Offload: devices compute gradients, the host's processors update the weights. Each
# process is two workers: its device, and its threads.
[[worker]]
rank = "0-65535"
device = "0-1023"
pool = "compute"

[[worker]]
rank = "0-65535"
communicator = "*"
pool = "compute"

[[worker]]
rank = "0-65535"
pool = "update"

# Gradients go to the host's memory, weights come back. Small copies (the loss) count with them.
[[link]]
name = "gradients"
from = "compute"
to = "update"

[[link]]
name = "weights"
from = "update"
to = "compute"

[[range]]
copy = "device to host"
means = "wire"
link = "gradients"

[[range]]
copy = "host to device"
means = "wire"
link = "weights"

# DeepSpeedZeroOptimizer_Stage3.step and the like; DeepSpeedCPUAdam.step where the job marks it.
[[range]]
name = "*Optimizer*.step"
pool = "update"
means = "work"

[[range]]
name = "*CPUAdam*.step"
pool = "update"
means = "work"

[[range]]
name = "*Optimizer*.step"
pool = "update"
means = "step"
)";

// Roles by the environment that ps-lite and BytePS read, and by the flags that TensorFlow's
// parameter-server examples take.
constexpr char kParameterServer[] =
    R"(# Workers push gradients to servers, which update the weights, and pull them.
[[worker]]
env = "DMLC_ROLE=worker"
pool = "compute"

[[worker]]
env = "DMLC_ROLE=server"
pool = "update"

[[worker]]
process = "*--job_name=worker*"
pool = "compute"

[[worker]]
process = "*--job_name=ps*"
pool = "update"

[[link]]
name = "gradients"
from = "compute"
to = "update"

[[link]]
name = "weights"
from = "update"
to = "compute"

[[range]]
name = "forward*"
pool = "compute"
means = "work"

[[range]]
name = "backward*"
pool = "compute"
means = "work"

[[range]]
name = "push*"
pool = "compute"
means = "wire"
link = "gradients"
bytes = "bytes"

[[range]]
name = "pull*"
pool = "compute"
means = "wait_link"
link = "weights"

[[range]]
name = "update*"
pool = "update"
means = "work"

[[range]]
name = "update*"
pool = "update"
means = "step"
)";

// Titles of processes: vLLM sets "VLLM::EngineCore" and "VLLM::Worker_TP0", Ray sets
// "ray::Class.method" of an actor. verl's ranges bear the names of its workers' methods.
constexpr char kAsyncRl[] =
    R"(# Rollout engines generate sequences, trainers learn from them: verl, OpenRLHF, TRL and more.
[[worker]]
process = "*VLLM::*"
pool = "rollout"

[[worker]]
process = "*vllm-serve*"
pool = "rollout"

[[worker]]
process = "*vllm serve*"
pool = "rollout"

[[worker]]
process = "*sglang*"
pool = "rollout"

[[worker]]
process = "ray::*ollout*"
pool = "rollout"

[[worker]]
process = "ray::LLMRayActor*"
pool = "rollout"

[[worker]]
process = "ray::*Trainer*"
pool = "trainer"

[[worker]]
process = "ray::*Actor*"
pool = "trainer"

[[worker]]
rank = "0-65535"
pool = "trainer"

[[link]]
name = "samples"
from = "rollout"
to = "trainer"

[[link]]
name = "weights"
from = "trainer"
to = "rollout"

[[range]]
name = "generate*"
pool = "rollout"
means = "work"

[[range]]
name = "compute_log_prob*"
pool = "trainer"
means = "work"

[[range]]
name = "compute_values*"
pool = "trainer"
means = "work"

[[range]]
name = "update_*"
pool = "trainer"
means = "work"

[[range]]
name = "update_actor*"
pool = "trainer"
means = "step"

[[range]]
name = "*wait*samples*"
pool = "trainer"
means = "wait_link"
link = "samples"

[[range]]
name = "*param_sync*"
means = "wire"
link = "weights"

[[range]]
name = "*sync*weights*"
means = "wire"
link = "weights"

[[range]]
name = "*checkpoint*"
means = "other_work"

[[range]]
name = "*validate*"
means = "other_work"
)";

constexpr Preset kPresets[] = {
    {"reference-trainer", "threads compute/<n> and update/<n>, as poolscope-trainer names them",
     kReferenceTrainer},
    {"zero-offload", "devices compute, the host's processors update; copies are the links",
     kZeroOffload},
    {"parameter-server", "workers and servers, told apart by DMLC_ROLE or --job_name",
     kParameterServer},
    {"async-rl", "rollout engines and trainers, told apart by the titles of their processes",
     kAsyncRl},
};

}  // namespace

std::span<const Preset> Presets() { return kPresets; }

}  // namespace poolscope
