// The annotation contract as functions of libpoolscope_agent.so, for languages that call C but
// cannot include it. C and C++ jobs use poolscope/annotate.h instead, which says what each call
// means, needs nothing linked, and is seen by other NVTX tools too; these are seen by this agent
// alone.
//
// A caller finds the library where NVTX_INJECTION64_PATH, CUDA_INJECTION64_PATH or
// NCCL_PROFILER_PLUGIN names it, or already in the process (dlsym), and does without where it is
// not: nobody watches. Any thread may call any function; none fails, none blocks. Numbers that do
// not apply are UINT64_MAX.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Non-zero while events are recorded.
int poolscope_agent_attached(void);
// The number of a name (UTF-8) for the calls below; the same for the same text.
uint64_t poolscope_agent_name(const char* text);

void poolscope_agent_worker(const char* pool, uint32_t index, const char* role);
void poolscope_agent_link(const char* name, const char* from, const char* to, uint64_t capacity,
                          uint64_t lanes);
void poolscope_agent_setting(const char* key, const char* value);

// A range of the calling thread that means nothing by itself: a push and pop in NVTX's default
// domain, which nest apart from the ranges below.
void poolscope_agent_push(uint64_t name);
void poolscope_agent_pop(void);

// A range of the calling thread; `category` is one of enum poolscope_category. One of the ends
// closes it.
void poolscope_agent_begin(uint32_t category, uint64_t name);
void poolscope_agent_end(void);
void poolscope_agent_end_work(uint64_t step, uint64_t micro_batch, uint64_t version, uint64_t scope,
                              uint64_t cpu_ns);
void poolscope_agent_end_wait(uint64_t source, uint64_t sequence);

// A transfer is the eleven words of struct poolscope_transfer, in its order; its codec is a name or
// 0. The queued stage begins on one thread and may end on another.
void poolscope_agent_end_transfer(const uint64_t transfer[11]);
uint64_t poolscope_agent_queue_begin(uint64_t link, const uint64_t transfer[11]);
void poolscope_agent_queue_end(uint64_t id);
void poolscope_agent_discard(uint64_t link, const uint64_t transfer[11]);
void poolscope_agent_fault(uint64_t link, uint64_t kind, uint64_t source, uint64_t destination,
                           uint64_t sequence, uint64_t bytes);

void poolscope_agent_step(uint64_t name, uint64_t step, uint64_t version, uint64_t tokens,
                          uint64_t micro_batches, double loss);

// 0: nothing is recorded.
uint64_t poolscope_agent_counter(const char* name);
void poolscope_agent_sample(uint64_t counter, double value);

#ifdef __cplusplus
}
#endif
