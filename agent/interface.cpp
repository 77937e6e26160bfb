// poolscope/agent.h: annotate.h compiled into the agent, whose NVTX client finds its tool in the
// same library (InitializeInjectionNvtx2_fnptr in injection.cpp), whatever the environment says.

#define NVTX_SUPPORT_DYNAMIC_INJECTION_LIBRARY 0
#include <poolscope/annotate.h>
// The functions are exported, which NVTX's headers would otherwise hide.
#pragma GCC visibility push(default)
#include <poolscope/agent.h>
#pragma GCC visibility pop

namespace {

nvtxStringHandle_t Handle(uint64_t name) { return reinterpret_cast<nvtxStringHandle_t>(name); }

poolscope_transfer Transfer(const uint64_t words[11]) {
  static_assert(sizeof(poolscope_transfer) == 11 * sizeof(uint64_t));
  poolscope_transfer transfer;
  memcpy(&transfer, words, sizeof(transfer));
  return transfer;
}

}  // namespace

int poolscope_agent_attached() { return poolscope_attached(); }

uint64_t poolscope_agent_name(const char* text) {
  return reinterpret_cast<uint64_t>(poolscope_name(text));
}

void poolscope_agent_worker(const char* pool, uint32_t index, const char* role) {
  poolscope_worker(pool, index, role);
}

void poolscope_agent_link(const char* name, const char* from, const char* to, uint64_t capacity,
                          uint64_t lanes) {
  poolscope_link(name, from, to, capacity, lanes);
}

void poolscope_agent_setting(const char* key, const char* value) { poolscope_setting(key, value); }

void poolscope_agent_push(uint64_t name) {
  nvtxEventAttributes_t attributes;
  poolscope_fill_(&attributes, 0, Handle(name));
  nvtxDomainRangePushEx(nullptr, &attributes);
}

void poolscope_agent_pop() { nvtxDomainRangePop(nullptr); }

void poolscope_agent_begin(uint32_t category, uint64_t name) {
  poolscope_begin(category, Handle(name));
}

void poolscope_agent_end() { poolscope_end(); }

void poolscope_agent_end_work(uint64_t step, uint64_t micro_batch, uint64_t version, uint64_t scope,
                              uint64_t cpu_ns) {
  const poolscope_work work = {step, micro_batch, version, scope, cpu_ns};
  poolscope_end_work(&work);
}

void poolscope_agent_end_wait(uint64_t source, uint64_t sequence) {
  poolscope_end_wait(source, sequence);
}

void poolscope_agent_end_transfer(const uint64_t words[11]) {
  const poolscope_transfer transfer = Transfer(words);
  poolscope_end_transfer(&transfer);
}

uint64_t poolscope_agent_queue_begin(uint64_t link, const uint64_t words[11]) {
  const poolscope_transfer transfer = Transfer(words);
  return poolscope_queue_begin(Handle(link), &transfer);
}

void poolscope_agent_queue_end(uint64_t id) { poolscope_queue_end(id); }

void poolscope_agent_discard(uint64_t link, const uint64_t words[11]) {
  const poolscope_transfer transfer = Transfer(words);
  poolscope_discard(Handle(link), &transfer);
}

void poolscope_agent_fault(uint64_t link, uint64_t kind, uint64_t source, uint64_t destination,
                           uint64_t sequence, uint64_t bytes) {
  const poolscope_fault_info fault = {kind, source, destination, sequence, bytes};
  poolscope_fault(Handle(link), &fault);
}

void poolscope_agent_step(uint64_t name, uint64_t step, uint64_t version, uint64_t tokens,
                          uint64_t micro_batches, double loss) {
  const poolscope_step_info info = {step, version, tokens, micro_batches, loss};
  poolscope_step(Handle(name), &info);
}

uint64_t poolscope_agent_counter(const char* name) { return poolscope_counter(name); }

void poolscope_agent_sample(uint64_t counter, double value) { poolscope_sample(counter, value); }
