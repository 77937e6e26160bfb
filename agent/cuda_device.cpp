#include "agent/cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>

#include <iterator>

#include "agent/cupti_record.h"
#include "agent/text.h"

namespace poolscope::agent::cupti {
namespace {

// The UUID's 16 bytes, of a MIG instance where the process was given one. False: not known.
bool ReadUuid(uint32_t device, unsigned char (&uuid)[16]) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return false;
  using Get = int (*)(int* handle, int device);
  using GetUuid = int (*)(unsigned char* uuid, int handle);
  const auto get = reinterpret_cast<Get>(dlsym(driver, "cuDeviceGet"));
  auto get_uuid = reinterpret_cast<GetUuid>(dlsym(driver, "cuDeviceGetUuid_v2"));
  if (get_uuid == nullptr) {  // before CUDA 11.4
    get_uuid = reinterpret_cast<GetUuid>(dlsym(driver, "cuDeviceGetUuid"));
  }
  int handle = 0;
  const bool read = get != nullptr && get_uuid != nullptr &&
                    get(&handle, static_cast<int>(device)) == 0 && get_uuid(uuid, handle) == 0;
  dlclose(driver);
  return read;
}

// The payload's schema, defined with the first one.
uint32_t Schema() {
  static uint32_t schema = 0;
  if (schema != 0) return schema;
  const SchemaFieldDef fields[] = {
      {InternText("device"), static_cast<uint16_t>(FieldType::kUint64), 0},
      {InternText("uuid"), static_cast<uint16_t>(FieldType::kString), 0}};
  schema = InternText("cuda.device");
  session.Define(DefinitionKind::kSchema, schema, fields, sizeof(fields), 0);
  return schema;
}

}  // namespace

void DescribeDevice(ThreadWriter& writer, uint32_t device) {
  unsigned char uuid[16];
  if (!ReadUuid(device, uuid)) return;
  char text[37];
  int at = 0;
  for (size_t i = 0; i < std::size(uuid); ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    at += snprintf(text + at, sizeof(text) - static_cast<size_t>(at), dash ? "-%02x" : "%02x",
                   uuid[i]);
  }
  char name[32];
  snprintf(name, sizeof(name), "device %u", device);
  const uint64_t words[] = {Schema() | uint64_t{2} << 32, device, NameOf(writer, text)};
  EventPayload payload;
  payload.words = std::size(words);
  payload.groups = words;
  writer.Mark(RecordDomain(), NameOf(writer, name), 0, payload);
}

}  // namespace poolscope::agent::cupti
