// Small broken files, one for every way we know of to break a GGUF file: for the tests, and as seeds of the fuzz target.
// Each names the words that its refusal must contain.  Numbers: the checks of gguf.md section 3.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace fewbit::gguf::hostile {

// Raw bytes, put together without any of the checks of Writer.
struct Bytes {
  std::vector<u8> b;

  template <class T>
  Bytes& num(T v) {
    const u8* p = reinterpret_cast<const u8*>(&v);
    b.insert(b.end(), p, p + sizeof v);
    return *this;
  }
  Bytes& u16_(u64 v) { return num(u16(v)); }
  Bytes& u32_(u64 v) { return num(u32(v)); }
  Bytes& u64_(u64 v) { return num(v); }
  Bytes& f32_(f32 v) { return num(v); }
  Bytes& raw(std::string_view s) {
    b.insert(b.end(), s.begin(), s.end());
    return *this;
  }
  Bytes& raw(const Bytes& o) {
    b.insert(b.end(), o.b.begin(), o.b.end());
    return *this;
  }
  Bytes& str(std::string_view s) { return u64_(s.size()).raw(s); }
  Bytes& zeros(size_t n) {
    b.resize(b.size() + n, 0);
    return *this;
  }
};

// A file of parts; every part can be wrong.
struct Maker {
  std::string magic = "GGUF";
  u32 version = 3;
  std::vector<Bytes> keys, tensors;
  u64 more_tensors = 0, more_keys = 0;  // added to the counts
  size_t alignment = 32, data = 0;      // bytes behind the header
  bool pad = true;

  Maker& key(std::string_view k, u32 type, const Bytes& value) {
    keys.push_back(Bytes().str(k).u32_(type).raw(value));
    return *this;
  }
  Maker& u32_key(std::string_view k, u64 v) { return key(k, 4, Bytes().u32_(v)); }
  Maker& f32_key(std::string_view k, f32 v) { return key(k, 6, Bytes().f32_(v)); }
  Maker& string_key(std::string_view k, std::string_view v) { return key(k, 8, Bytes().str(v)); }
  Maker& array_key(std::string_view k, u32 element, u64 n, const Bytes& elements) {
    return key(k, 9, Bytes().u32_(element).u64_(n).raw(elements));
  }
  Maker& strings_key(std::string_view k, const std::vector<std::string>& v) {
    Bytes all;
    for (const std::string& s : v) all.str(s);
    return array_key(k, 8, v.size(), all);
  }
  Maker& tensor(std::string_view name, const std::vector<u64>& dims, u32 type, u64 offset) {
    Bytes t;
    t.str(name).u32_(dims.size());
    for (u64 d : dims) t.u64_(d);
    t.u32_(type).u64_(offset);
    tensors.push_back(t);
    return *this;
  }
  std::vector<u8> bytes() const {
    Bytes out;
    out.raw(magic).u32_(version).u64_(tensors.size() + more_tensors).u64_(keys.size() + more_keys);
    for (const Bytes& k : keys) out.raw(k);
    for (const Bytes& t : tensors) out.raw(t);
    if (pad && !tensors.empty()) out.zeros((alignment - out.b.size() % alignment) % alignment);
    for (size_t i = 0; i < data; i++) out.b.push_back(u8(i % 7));
    return out.b;
  }
};

struct Case {
  std::string name, expect;
  std::vector<u8> bytes;
  OpenOptions options = {};
};

}  // namespace fewbit::gguf::hostile
