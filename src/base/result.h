// Result<T>: a value, or an Error that says in one line what is wrong with the world (a file, a request, the machine).
//
//   Result<File> open(...);
//   FEWBIT_TRY(auto file, open(path));        // returns the error to our caller
//   return Error{Code::bad_file, fmt::format("tensor '{}': ends at byte {}, file has {}", ...)};
#pragma once
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace fewbit {

enum class Code { invalid_argument, bad_file, not_found, unsupported, out_of_memory, io, cancelled };

struct Error {
  Code code = Code::invalid_argument;
  std::string what;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error e) : v_(std::in_place_index<1>, std::move(e)) {}

  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return check(), *std::get_if<0>(&v_); }
  const T& value() const& { return check(), *std::get_if<0>(&v_); }
  T&& value() && { return check(), std::move(*std::get_if<0>(&v_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return *std::get_if<1>(&v_); }
  Error&& error() && { return std::move(*std::get_if<1>(&v_)); }

 private:
  void check() const { FEWBIT_CHECK(ok(), "value() of a failed Result: %s", std::get_if<1>(&v_)->what.c_str()); }
  std::variant<T, Error> v_;
};

// Result<void> in short: success, or an error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error e) : error_(std::move(e)), ok_(false) {}
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace fewbit

#define FEWBIT_CAT2(a, b) a##b
#define FEWBIT_CAT(a, b) FEWBIT_CAT2(a, b)
// FEWBIT_TRY(auto x, expression of type Result<X>): x on success; on failure returns the error from the enclosing function.
#define FEWBIT_TRY(decl, expr) FEWBIT_TRY_(FEWBIT_CAT(fewbit_try_, __LINE__), decl, expr)
#define FEWBIT_TRY_(tmp, decl, expr)            \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = std::move(tmp).value()
// FEWBIT_OK(expression of type Status): returns the error from the enclosing function, if there is one.
#define FEWBIT_OK(expr)                                                             \
  do {                                                                              \
    if (auto fewbit_s = (expr); !fewbit_s.ok()) return std::move(fewbit_s).error(); \
  } while (0)
