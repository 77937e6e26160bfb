#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "store/sqlite_api.h"

namespace poolscope {

// A prepared statement. Bind and column indices count from 0. Texts and blobs are bound without a
// copy: they must live until the statement is reset.
class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  Statement& operator=(Statement&& other) noexcept {
    std::swap(statement_, other.statement_);
    return *this;
  }
  ~Statement() { sqlite3_finalize(statement_); }

  sqlite3_stmt* get() const { return statement_; }
  explicit operator bool() const { return statement_ != nullptr; }

  void Bind(int at, int64_t value) { sqlite3_bind_int64(statement_, at + 1, value); }
  void Bind(int at, uint32_t value) { sqlite3_bind_int64(statement_, at + 1, value); }
  void Bind(int at, bool value) { sqlite3_bind_int64(statement_, at + 1, value); }
  // NaN is stored as NULL (SQLite has no NaN) and read as NaN.
  void Bind(int at, double value) { sqlite3_bind_double(statement_, at + 1, value); }
  void Bind(int at, std::string_view value) {
    sqlite3_bind_text(statement_, at + 1, value.data() ? value.data() : "",
                      static_cast<int>(value.size()), SQLITE_STATIC);
  }
  void Bind(int at, const std::string& value) { Bind(at, std::string_view(value)); }
  void Bind(int at, std::span<const uint8_t> value) {
    sqlite3_bind_blob64(statement_, at + 1, value.data() ? value.data() : Nothing(), value.size(),
                        SQLITE_STATIC);
  }
  template <typename T>
  void Bind(int at, const std::optional<T>& value) {
    if (value) {
      Bind(at, *value);
    } else {
      sqlite3_bind_null(statement_, at + 1);
    }
  }

  void Read(int at, int64_t& value) const { value = sqlite3_column_int64(statement_, at); }
  void Read(int at, uint32_t& value) const {
    value = static_cast<uint32_t>(sqlite3_column_int64(statement_, at));
  }
  void Read(int at, bool& value) const { value = sqlite3_column_int64(statement_, at) != 0; }
  void Read(int at, double& value) const {
    value = IsNull(at) ? std::numeric_limits<double>::quiet_NaN()
                       : sqlite3_column_double(statement_, at);
  }
  void Read(int at, std::string& value) const { value = Text(at); }
  template <typename T>
  void Read(int at, std::optional<T>& value) const {
    value.reset();
    if (!IsNull(at)) Read(at, value.emplace());
  }

  bool IsNull(int at) const { return sqlite3_column_type(statement_, at) == SQLITE_NULL; }
  int64_t Integer(int at) const { return sqlite3_column_int64(statement_, at); }
  // Both valid until the next step or reset.
  std::string_view Text(int at) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, at));
    return {text ? text : "", static_cast<size_t>(sqlite3_column_bytes(statement_, at))};
  }
  std::span<const uint8_t> Blob(int at) const {
    const auto* bytes = static_cast<const uint8_t*>(sqlite3_column_blob(statement_, at));
    return {bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, at))};
  }

 private:
  static const void* Nothing() { return ""; }
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace poolscope
