// Mat<T>: a view of rows x cols elements, `stride` elements from one row to the next.  Owns nothing.
#pragma once
#include <span>

#include "base/check.h"
#include "base/types.h"

namespace fewbit {

template <class T>
struct Mat {
  T* data = nullptr;
  i64 rows = 0, cols = 0, stride = 0;

  Mat() = default;
  Mat(T* d, i64 r, i64 c) : data(d), rows(r), cols(c), stride(c) {}
  Mat(T* d, i64 r, i64 c, i64 s) : data(d), rows(r), cols(c), stride(s) {}
  std::span<T> row(i64 r) const {
    FEWBIT_ASSERT(r >= 0 && r < rows);
    return {data + r * stride, static_cast<size_t>(cols)};
  }
  T& at(i64 r, i64 c) const { return data[r * stride + c]; }
  operator Mat<const T>() const { return {data, rows, cols, stride}; }
};

}  // namespace fewbit
