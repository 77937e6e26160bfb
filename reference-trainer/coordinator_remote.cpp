#include "reference-trainer/coordinator_remote.h"

#include <fmt/format.h>

#include <array>
#include <tuple>
#include <utility>

#include "reference-trainer/packet.h"

namespace poolscope::trainer {
namespace {

// What a method of the coordinator takes and gives.
template <auto Method>
struct Signature;
template <typename R, typename... A, R (Coordinator::*Method)(A...)>
struct Signature<Method> {
  using Result = R;

  static std::optional<Transport::Bytes> Serve(Coordinator& coordinator, PacketReader& reader) {
    std::tuple<std::decay_t<A>...> arguments{reader.Get<std::decay_t<A>>()...};  // left to right
    const auto call = [&](const auto&... each) { return (coordinator.*Method)(each...); };
    if constexpr (std::is_void_v<R>) {
      std::apply(call, arguments);
      return std::nullopt;
    } else {
      return PacketOf(std::apply(call, arguments));
    }
  }
};

// Requests are numbered by their place here.
template <auto... Methods>
struct RequestTable {
  static constexpr std::array kServe = {&Signature<Methods>::Serve...};

  template <auto Method>
  static constexpr uint32_t NumberOf() {
    uint32_t number = 0;
    (void)((Same<Method, Methods>() || (++number, false)) || ...);
    return number;
  }

 private:
  template <auto A, auto B>
  static constexpr bool Same() {
    return std::is_same_v<std::integral_constant<decltype(A), A>,
                          std::integral_constant<decltype(B), B>>;
  }
};

using C = Coordinator;
using Requests = RequestTable<&C::BeginStep, &C::TryStart, &C::HandedOver, &C::Ask, &C::steps,
                              &C::version, &C::discarded, &C::Members, &C::PresenceOf, &C::Leave,
                              &C::Beat, &C::NoteFill, &C::Updated, &C::AddSquaredNorm, &C::Tell,
                              &C::StopAfterCurrentStep, &C::Ready, &C::Ended, &C::Fail>;

}  // namespace

CoordinatorServer::CoordinatorServer(LocalCoordinator& coordinator, Transport& transport)
    : coordinator_(coordinator), transport_(transport) {
  transport_.On(kRequestTag, [this](int source, const Transport::Bytes& bytes) {
    PacketReader reader(bytes);
    const auto request = reader.Get<uint64_t>();
    const auto number = reader.Get<uint32_t>();
    const auto result = Requests::kServe[number](coordinator_, reader);
    if (!result) return;
    Transport::Bytes reply = PacketOf(request);
    reply.insert(reply.end(), result->begin(), result->end());
    transport_.Send(source, kReplyTag, std::move(reply));
  });
}

void CoordinatorServer::TellState() {
  for (int rank = 1; rank < transport_.ranks(); ++rank) {
    transport_.Send(rank, kStateTag,
                    PacketOf(coordinator_.started(), coordinator_.failed(), coordinator_.ended(),
                             coordinator_.failure()));
  }
}

RemoteCoordinator::RemoteCoordinator(Transport& transport, Journal& journal,
                                     std::function<void()> changed)
    : transport_(transport), journal_(journal), changed_(std::move(changed)) {
  transport_.On(kReplyTag, [this](int, const Transport::Bytes& bytes) {
    const auto request = PacketReader(bytes).Get<uint64_t>();
    {
      std::lock_guard lock(mutex_);
      replies_[request].emplace(bytes.begin() + sizeof request, bytes.end());
    }
    answered_.notify_all();
  });
  transport_.On(kStateTag, [this](int, const Transport::Bytes& bytes) { TakeState(bytes); });
}

void RemoteCoordinator::TakeState(const Transport::Bytes& bytes) {
  PacketReader reader(bytes);
  started_ = reader.Get<bool>();
  const bool failed = reader.Get<bool>();
  const bool ended = reader.Get<bool>();
  {
    std::lock_guard lock(mutex_);
    if (failed) failure_ = reader.Get<std::string>();
  }
  if (failed) failed_ = true;
  changed_();
  if (ended) journal_.Close();
}

template <auto Method, typename... Arguments>
auto RemoteCoordinator::Request(const Arguments&... arguments) {
  using Result = typename Signature<Method>::Result;
  std::unique_lock lock(mutex_);
  const uint64_t request = next_request_++;
  transport_.Send(0, kRequestTag, PacketOf(request, Requests::NumberOf<Method>(), arguments...));
  if constexpr (!std::is_void_v<Result>) {
    const auto reply = replies_.try_emplace(request).first;
    answered_.wait(lock, [&] { return reply->second.has_value(); });
    const auto result = PacketReader(*reply->second).template Get<Result>();
    replies_.erase(reply);
    return result;
  }
}

std::optional<StepPlan> RemoteCoordinator::BeginStep(uint64_t step) {
  return Request<&C::BeginStep>(step);
}
Admission::Attempt RemoteCoordinator::TryStart(uint64_t worker, uint64_t version) {
  return Request<&C::TryStart>(worker, version);
}
bool RemoteCoordinator::HandedOver(uint64_t attempt) { return Request<&C::HandedOver>(attempt); }
Admission::Decision RemoteCoordinator::Ask(uint64_t attempt) { return Request<&C::Ask>(attempt); }
uint64_t RemoteCoordinator::steps() { return Request<&C::steps>(); }
uint64_t RemoteCoordinator::version() { return Request<&C::version>(); }
uint64_t RemoteCoordinator::discarded() { return Request<&C::discarded>(); }
std::vector<uint64_t> RemoteCoordinator::Members(uint64_t version) {
  return Request<&C::Members>(version);
}
Presence RemoteCoordinator::PresenceOf(uint64_t worker) { return Request<&C::PresenceOf>(worker); }
void RemoteCoordinator::Leave(uint64_t worker) { Request<&C::Leave>(worker); }
void RemoteCoordinator::Beat(uint64_t worker) { Request<&C::Beat>(worker); }
void RemoteCoordinator::NoteFill(double fill) { Request<&C::NoteFill>(fill); }
void RemoteCoordinator::Updated(size_t shard) { Request<&C::Updated>(shard); }
void RemoteCoordinator::AddSquaredNorm(uint64_t step, double squares, size_t shards) {
  Request<&C::AddSquaredNorm>(step, squares, shards);
  version();  // known before anybody acts upon this update: plans follow the norms
}
void RemoteCoordinator::Tell(const StepRecord& record) { Request<&C::Tell>(record); }
void RemoteCoordinator::StopAfterCurrentStep() { Request<&C::StopAfterCurrentStep>(); }
void RemoteCoordinator::Ready() { Request<&C::Ready>(); }
void RemoteCoordinator::Ended() { Request<&C::Ended>(); }

void RemoteCoordinator::Fail(const std::string& message) {
  const std::string named = fmt::format("rank {}: {}", transport_.rank(), message);
  {
    std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = named;
  }
  failed_ = true;
  changed_();
  Request<&C::Fail>(named);
}

std::string RemoteCoordinator::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace poolscope::trainer
