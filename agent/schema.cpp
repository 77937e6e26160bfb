#include "agent/schema.h"

#include <string.h>

#include <bit>

#include "agent/process.h"
#include "agent/text.h"

namespace poolscope::agent {
namespace {}  // namespace

Number NumberOf(uint64_t type) {
  switch (type) {
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT8:
      return {1, Source::kInt8};
    case NVTX_PAYLOAD_ENTRY_TYPE_UCHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT8:
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR8:
    case NVTX_PAYLOAD_ENTRY_TYPE_BYTE:
      return {1, Source::kUint8};
    case NVTX_PAYLOAD_ENTRY_TYPE_SHORT:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT16:
      return {2, Source::kInt16};
    case NVTX_PAYLOAD_ENTRY_TYPE_USHORT:
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR16:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT16:
      return {2, Source::kUint16};
    case NVTX_PAYLOAD_ENTRY_TYPE_INT:
    case NVTX_PAYLOAD_ENTRY_TYPE_WCHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT32:
      return {4, Source::kInt32};
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT32:
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR32:
    case NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY:
    case NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB:
    case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32:
    case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32:
      return {4, Source::kUint32};
    case NVTX_PAYLOAD_ENTRY_TYPE_LONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT64:
      return {8, Source::kInt64};
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_SIZE:
    case NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS:
    case NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID:
    case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64:
      return {8, Source::kUint64};
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16:
      return {2, Source::kFloat16};
    case NVTX_PAYLOAD_ENTRY_TYPE_BF16:
      return {2, Source::kBfloat16};
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT:
    case NVTX_PAYLOAD_ENTRY_TYPE_TF32:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32:
      return {4, Source::kFloat32};
    case NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64:
      return {8, Source::kFloat64};
    case NVTX_PAYLOAD_ENTRY_TYPE_INT128:
      return {16, Source::kInt128};
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT128:
      return {16, Source::kUint128};
    case NVTX_PAYLOAD_ENTRY_TYPE_LONGDOUBLE:
      return {sizeof(long double), Source::kLongDouble};
    case NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE:
      return {8, Source::kStringHandle};
    default:
      return {0, Source::kUint64};
  }
}

namespace {

double HalfToDouble(uint16_t half) {
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  if (exponent == 31) return mantissa != 0 ? __builtin_nan("") : sign * __builtin_inf();
  const double value = exponent == 0 ? mantissa : mantissa + 1024;
  // times 2 to the power of -24 or (exponent - 25)
  const uint64_t power = exponent == 0 ? 1023 - 24 : static_cast<uint64_t>(1023 + exponent - 25);
  return sign * value * std::bit_cast<double>(power << 52);
}

template <typename T>
T Load(const void* at) {
  T value;
  memcpy(&value, at, sizeof(value));
  return value;
}

}  // namespace

uint32_t NumberSource(uint64_t type, Source* source) {
  const Number number = NumberOf(type);
  if (number.bytes == 0 || number.source == Source::kStringHandle) return 0;
  *source = number.source;
  return number.bytes;
}

FieldType TypeOf(Source source) {
  switch (source) {
    case Source::kUint8:
    case Source::kUint16:
    case Source::kUint32:
    case Source::kUint64:
      return FieldType::kUint64;
    case Source::kInt8:
    case Source::kInt16:
    case Source::kInt32:
    case Source::kInt64:
      return FieldType::kInt64;
    case Source::kFloat16:
    case Source::kBfloat16:
    case Source::kFloat32:
    case Source::kFloat64:
    case Source::kInt128:
    case Source::kUint128:
    case Source::kLongDouble:
      return FieldType::kDouble;
    case Source::kStringHandle:
    case Source::kTextAddress:
    case Source::kText16Address:
    case Source::kText32Address:
    case Source::kTextInPlace:
    case Source::kEnumName:
      break;
  }
  return FieldType::kString;
}

uint64_t ReadValue(const void* at, Source source) {
  switch (source) {
    case Source::kUint8:
      return Load<uint8_t>(at);
    case Source::kUint16:
      return Load<uint16_t>(at);
    case Source::kUint32:
      return Load<uint32_t>(at);
    case Source::kUint64:
    case Source::kInt64:
    case Source::kFloat64:
      return Load<uint64_t>(at);
    case Source::kInt8:
      return static_cast<uint64_t>(int64_t{Load<int8_t>(at)});
    case Source::kInt16:
      return static_cast<uint64_t>(int64_t{Load<int16_t>(at)});
    case Source::kInt32:
      return static_cast<uint64_t>(int64_t{Load<int32_t>(at)});
    case Source::kFloat16:
      return std::bit_cast<uint64_t>(HalfToDouble(Load<uint16_t>(at)));
    case Source::kBfloat16:
      return std::bit_cast<uint64_t>(
          double{std::bit_cast<float>(uint32_t{Load<uint16_t>(at)} << 16)});
    case Source::kFloat32:
      return std::bit_cast<uint64_t>(double{Load<float>(at)});
    case Source::kInt128:
      return std::bit_cast<uint64_t>(static_cast<double>(Load<__int128>(at)));
    case Source::kUint128:
      return std::bit_cast<uint64_t>(static_cast<double>(Load<unsigned __int128>(at)));
    case Source::kLongDouble:
      return std::bit_cast<uint64_t>(static_cast<double>(Load<long double>(at)));
    case Source::kStringHandle:
      return StringOf(Load<uint64_t>(at));
    case Source::kTextAddress:
      return InternText(Load<const char*>(at));
    case Source::kText16Address:
      return InternUtf16(Load<const char16_t*>(at));
    case Source::kText32Address:
      return InternWide(Load<const wchar_t*>(at));
    case Source::kTextInPlace:
    case Source::kEnumName:
      break;  // need more than their place
  }
  return 0;
}

}  // namespace poolscope::agent
