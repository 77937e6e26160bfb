#include "reference-trainer/transport_mpi.h"

#include <fmt/format.h>

#ifdef POOLSCOPE_MPI
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#endif

namespace poolscope::trainer {

#ifdef POOLSCOPE_MPI
namespace {

// MPI is initialised by the caller of StartMpi() and used by it, then by the transport's thread:
// one at a time, MPI_THREAD_SERIALIZED. Errors end all processes (MPI_ERRORS_ARE_FATAL).
class Mpi : public MpiTransport {
 public:
  Mpi(int rank, int ranks) : MpiTransport(rank, ranks) {}
  ~Mpi() override { MPI_Finalize(); }

  std::string FirstError(const std::string& error) override {
    std::array<char, 1024> own{};
    std::vector<char> all(own.size() * static_cast<size_t>(ranks()));
    std::copy_n(error.begin(), std::min(error.size(), own.size() - 1), own.begin());
    MPI_Allgather(own.data(), own.size(), MPI_BYTE, all.data(), own.size(), MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int each = 0; each < ranks(); ++each) {
      const std::string text = &all[own.size() * static_cast<size_t>(each)];
      if (!text.empty()) return each == 0 ? text : fmt::format("rank {}: {}", each, text);
    }
    return "";
  }

  uint64_t OfFirst(uint64_t value) override {
    MPI_Bcast(&value, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return value;
  }

 protected:
  void Begin(int rank, int tag, Bytes bytes, Task sent) override {
    Outgoing& out = outgoing_.emplace_back(Outgoing{std::move(bytes), std::move(sent)});
    MPI_Isend(out.bytes.data(), static_cast<int>(out.bytes.size()), MPI_BYTE, rank, tag,
              MPI_COMM_WORLD, &out.request);
  }

  bool Look() override {
    bool found = false;
    for (auto out = outgoing_.begin(); out != outgoing_.end();) {
      if (!Done(out->request)) {
        ++out;
        continue;
      }
      found = true;
      if (out->sent) out->sent();
      out = outgoing_.erase(out);
    }
    for (;;) {
      int some = 0;
      MPI_Message message;
      MPI_Status status;
      MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &some, &message, &status);
      if (some == 0) break;
      found = true;
      int size = 0;
      MPI_Get_count(&status, MPI_BYTE, &size);
      Incoming& in = incoming_.emplace_back(Incoming{status.MPI_SOURCE, status.MPI_TAG, {}});
      in.bytes.resize(static_cast<size_t>(size));
      MPI_Imrecv(in.bytes.data(), size, MPI_BYTE, &message, &in.request);
    }
    for (auto in = incoming_.begin(); in != incoming_.end();) {
      // A small packet may be complete before a large one that was sent first.
      const auto first = std::find_if(incoming_.begin(), in, [&](const Incoming& each) {
        return each.source == in->source && each.tag == in->tag;
      });
      if (first != in || !Done(in->request)) {
        ++in;
        continue;
      }
      found = true;
      Incoming done = std::move(*in);
      in = incoming_.erase(in);
      Deliver(done.source, done.tag, std::move(done.bytes));
    }
    return found;
  }

  bool Sending() const override { return !outgoing_.empty() || !incoming_.empty(); }

  bool AllClosed() override {
    if (closed_ == MPI_REQUEST_NULL && !entered_) {
      entered_ = true;
      MPI_Ibarrier(MPI_COMM_WORLD, &closed_);
    }
    return Done(closed_);
  }

 private:
  struct Outgoing {
    Bytes bytes;
    Task sent;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Incoming {
    int source, tag;
    Bytes bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static bool Done(MPI_Request& request) {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }

  std::list<Outgoing> outgoing_;
  std::list<Incoming> incoming_;  // in the order of their sending, by source
  MPI_Request closed_ = MPI_REQUEST_NULL;
  bool entered_ = false;
};

}  // namespace

std::variant<std::unique_ptr<MpiTransport>, std::string> StartMpi() {
  int given = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto transport = std::make_unique<Mpi>(rank, ranks);
  if (given < MPI_THREAD_SERIALIZED) return "this MPI allows no second thread";
  return transport;
}
#else
std::variant<std::unique_ptr<MpiTransport>, std::string> StartMpi() {
  return "built without MPI: install libopenmpi-dev and build again, or use --transport inprocess";
}
#endif

}  // namespace poolscope::trainer
