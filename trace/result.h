#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace poolscope {

// What went wrong, in one line for a person: the value, the file, and what to do about it.
struct Error {
  std::string message;
};

// A value or an Error. Nothing here throws; asking for the value of an error is a bug (undefined).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  T& value() { return *std::get_if<T>(&state_); }
  const T& value() const { return *std::get_if<T>(&state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return *std::get_if<Error>(&state_); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace poolscope
