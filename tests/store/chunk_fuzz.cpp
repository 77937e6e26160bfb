#include <cstdlib>

#include "store/chunk_codec.h"

// libFuzzer: any bytes as a chunk and as its body. What decodes must code and decode again to the
// same events.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poolscope;
  EventBatch batch;
  (void)DecodeChunk({data, size}, batch);
  if (!DecodeChunkBody({data, size}, batch).ok()) return 0;
  static ChunkEncoder encoder;
  const auto bytes = encoder.Encode(batch);
  if (!bytes.ok()) std::abort();
  EventBatch again;
  if (!DecodeChunk(*bytes, again).ok()) std::abort();
  if (again.events != batch.events || again.words != batch.words) std::abort();
  return 0;
}
