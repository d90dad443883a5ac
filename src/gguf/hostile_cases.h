// The broken files of hostile.h, for the test and for the fuzz target.
#pragma once
#include <limits>

#include "gguf/hostile.h"

namespace fewbit::gguf::hostile {

// A valid file with every kind of value and five tensors of 0 to 4 dimensions.
inline Maker valid() {
  Maker m;
  m.string_key("general.architecture", "llama").u32_key("general.alignment", 32).u32_key("llama.block_count", 2);
  m.u32_key("llama.embedding_length", 64).u32_key("llama.attention.head_count", 4).u32_key("llama.attention.head_count_kv", 2);
  m.f32_key("llama.rope.freq_base", 10000.0f).f32_key("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  m.key("t.u8", 0, Bytes().raw("\xff"))
      .key("t.i8", 1, Bytes().raw("\xff"))
      .key("t.u16", 2, Bytes().u16_(65535))
      .key("t.i16", 3, Bytes().u16_(65535));
  m.key("t.i32", 5, Bytes().u32_(0xffffffff)).key("t.bool", 7, Bytes().raw("\x01")).key("t.u64", 10, Bytes().u64_(~u64(0)));
  m.key("t.i64", 11, Bytes().u64_(~u64(0))).key("t.f64", 12, Bytes().num(0.1)).array_key("t.empty", 4, 0, {});
  m.array_key("t.bools", 7, 3, Bytes().raw(std::string_view("\0\1\1", 3))).array_key("t.u16s", 2, 2, Bytes().u16_(1).u16_(65535));
  m.array_key("t.i16s", 3, 2, Bytes().u16_(1).u16_(65535))
      .array_key("t.f64s", 12, 1, Bytes().num(0.5))
      .array_key("t.u64s", 10, 1, Bytes().u64_(~u64(0)));
  m.strings_key("tokenizer.ggml.tokens", {"a", "", "\xff"}).array_key("tokenizer.ggml.scores", 6, 3, Bytes().f32_(0).f32_(-1).f32_(-2));
  m.array_key("tokenizer.ggml.token_type", 5, 3, Bytes().u32_(1).u32_(1).u32_(6));
  m.tensor("a", {5}, 0, 0)
      .tensor("b", {64, 3}, 8, 32)
      .tensor("c", {256, 2, 2}, 10, 256)
      .tensor("d", {128, 1, 2, 2}, 142, 608)
      .tensor("e", {}, 1, 768);
  m.data = 770;  // the last tensor is not padded
  return m;
}

namespace detail {

struct List {
  std::vector<Case> all;
  void add(std::string name, std::string expect, std::vector<u8> bytes, OpenOptions options = {}) {
    all.push_back({std::move(name), std::move(expect), std::move(bytes), options});
  }
  void add(std::string name, std::string expect, const Maker& m, OpenOptions options = {}) {
    add(std::move(name), std::move(expect), m.bytes(), options);
  }
};

constexpr u64 most = ~u64(0), top = u64(1) << 63;

inline void header(List& l) {  // 1, 2
  auto of = [](std::string_view s) { return Bytes().raw(s).b; };
  l.add("empty", "file of 0 bytes", std::vector<u8>{});
  l.add("three-bytes", "file of 3 bytes", of("GGU"));
  l.add("magic-only", "needs 4 bytes", of("GGUF"));
  l.add("header-23-bytes", "file of 23 bytes", Bytes().raw("GGUF").u32_(3).u64_(0).zeros(7).b);
  l.add("lfs-pointer", "git-lfs", of("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"));
  auto with = [](auto change) {
    Maker m = valid();
    change(m);
    return m;
  };
  l.add("magic-wrong", "magic is 'GGUX'", with([](Maker& m) { m.magic = "GGUX"; }));
  l.add("magic-unprintable", "magic is '\\x00\\x0a", with([](Maker& m) { m.magic = std::string("\0\n\xff~", 4); }));
  l.add("magic-swapped", "big-endian", with([](Maker& m) { m.magic = "FUGG"; }));
  l.add("magic-ggml", "old GGML", with([](Maker& m) { m.magic = "tjgg"; }));
  l.add("version-0", "version 0 is not known", with([](Maker& m) { m.version = 0; }));
  l.add("version-1", "version 1", with([](Maker& m) { m.version = 1; }));
  l.add("version-4", "version 4 is not known", with([](Maker& m) { m.version = 4; }));
  l.add("version-big-endian", "big-endian (version 3)", with([](Maker& m) { m.version = 0x03000000; }));
  l.add("version-huge", "version 4294967295", with([](Maker& m) { m.version = 0xffffffff; }));
  auto counts = [](u64 tensors, u64 keys) { return Bytes().raw("GGUF").u32_(3).u64_(tensors).u64_(keys).zeros(100).b; };
  l.add("tensor-count-negative", "tensor count 18446744073709551615", counts(most, 0));
  l.add("tensor-count-top-bit", "tensor count 9223372036854775808", counts(top, 0));
  l.add("tensor-count-wraps", "tensor count 288230376151711745", counts((u64(1) << 58) + 1, 0));  // times 64 wraps to 64
  l.add("tensor-count-4g", "room for 4 at most", counts(u64(1) << 32, 0));
  l.add("tensor-count-too-many", "tensor count 5: 100 bytes are left, room for 4", counts(5, 0));
  l.add("key-count-negative", "key count 18446744073709551615", counts(0, most));
  l.add("key-count-wraps", "key count 329406144173384851", counts(0, most / 56 + 1));
  l.add("key-count-too-many", "key count 8: 100 bytes are left, room for 7", counts(0, 8));
  l.add("one-key-more", "tensor 0 of 5: name of 0 bytes", with([](Maker& m) { m.more_keys = 1; }));
  l.add("one-tensor-more", "tensor", with([](Maker& m) { m.more_tensors = 1; }));
  l.add("keys-missing", "key 0 of 1", Bytes().raw("GGUF").u32_(3).u64_(0).u64_(1).zeros(14).b);
}

inline void keys(List& l) {  // 4 to 8
  auto key = [](std::string_view k, u32 type, const Bytes& v) { return valid().key(k, type, v); };
  l.add("key-empty", "is empty", key("", 4, Bytes().u32_(1)));
  l.add("key-65536-bytes", "string of 65536 bytes, at most 65535", key(std::string(65536, 'k'), 4, Bytes().u32_(1)));
  l.add("key-newline", "not printable ASCII", key("a\nb", 4, Bytes().u32_(1)));
  l.add("key-zero-byte", "not printable ASCII", key(std::string_view("a\0b", 3), 4, Bytes().u32_(1)));
  l.add("key-utf8", "not printable ASCII", key("cl\xc3\xa9", 4, Bytes().u32_(1)));
  l.add("key-twice", "key 't.u8' appears twice", key("t.u8", 4, Bytes().u32_(1)));
  l.add("key-twice-general", "key 'general.alignment' appears twice", key("general.alignment", 4, Bytes().u32_(64)));
  auto raw_key = [](u64 length) {
    Maker m = valid();
    m.keys.push_back(Bytes().u64_(length).raw("abc").u32_(4).u32_(1));
    return m;
  };
  l.add("key-length-max", "string of 18446744073709551615 bytes", raw_key(most));
  l.add("key-length-top-bit", "string of 9223372036854775808 bytes", raw_key(top));
  l.add("key-length-1g", "string of 1073741824 bytes", raw_key(u64(1) << 30));
  for (u64 type : {u64(13), u64(255), u64(0x80000000), u64(0xffffffff)}) {
    l.add("value-type-" + std::to_string(type), "value type " + std::to_string(type), key("x", u32(type), Bytes().u64_(0)));
  }
  l.add("bool-2", "a bool of value 2", key("x", 7, Bytes().raw("\x02")));
  l.add("bools-255", "element 1 is a bool of value 255", key("x", 9, Bytes().u32_(7).u64_(2).raw("\x01\xff")));
  for (u64 n : {most, most - 7, top, u64(0x7fffffffffffffff), (u64(1) << 32) + 1, u64(1) << 30, u64(100000)}) {
    l.add("string-length-" + std::to_string(n), "string of " + std::to_string(n) + " bytes", key("x", 8, Bytes().u64_(n).raw("abc")));
  }
  auto array = [&](u32 element, u64 n, const Bytes& v = {}) { return key("x", 9, Bytes().u32_(element).u64_(n).raw(v)); };
  for (u64 type : {u64(13), u64(14), u64(0x80000000), u64(0xffffffff)}) {
    l.add("element-type-" + std::to_string(type), "element type " + std::to_string(type), array(u32(type), 1, Bytes().u64_(0)));
  }
  l.add("array-nested", "arrays of arrays", array(9, 1, Bytes().u32_(4).u64_(1).u32_(7)));
  l.add("array-nested-huge", "arrays of arrays", array(9, u64(1) << 40, Bytes().u32_(9).u64_(u64(1) << 40).u32_(9)));
  Bytes deep;
  for (int i = 0; i < 100; i++) deep.u32_(9).u64_(1);
  l.add("array-nested-deep", "arrays of arrays", array(9, 1, deep));
  l.add("array-u8-max", "array of 18446744073709551615 elements", array(0, most));
  l.add("array-u8-1g", "array of 1073741824 elements", array(0, u64(1) << 30));
  l.add("array-u16-wraps", "array of 9223372036854775809 elements", array(2, top + 1));
  l.add("array-f32-wraps", "array of 4611686018427387905 elements", array(6, (u64(1) << 62) + 1));
  l.add("array-f64-wraps", "array of 2305843009213693953 elements", array(12, (u64(1) << 61) + 1));
  l.add("array-string-wraps", "array of 1152921504606846977 elements", array(8, (u64(1) << 60) + 1));
  l.add("array-string-many", "array of 4000 elements", array(8, 4000));
  l.add("array-string-cut", "element 1 of key 'x'", array(8, 2, Bytes().str("ok").u64_(most)));
  l.add("array-string-32-bit", "string of 2147483648 bytes", array(8, 1, Bytes().u64_(u64(1) << 31)));
  l.add("array-string-minus-1", "string of 4294967295 bytes", array(8, 1, Bytes().u64_(0xffffffff)));
  // 8
  auto alignment = [](u32 type, const Bytes& v) {
    Maker m;
    return m.key("general.alignment", type, v).tensor("a", {8}, 0, 0);
  };
  for (u64 a : {u64(0), u64(1), u64(4), u64(7), u64(24), u64(33), u64(1) << 17, u64(1) << 30, u64(0x80000000), u64(0xffffffff)}) {
    l.add("alignment-" + std::to_string(a), "general.alignment is " + std::to_string(a), alignment(4, Bytes().u32_(a)));
  }
  l.add("alignment-u64", "is of type u64, expected u32", alignment(10, Bytes().u64_(32)));
  l.add("alignment-i32", "is of type i32, expected u32", alignment(5, Bytes().u32_(32)));
  l.add("alignment-string", "is of type string, expected u32", alignment(8, Bytes().str("32")));
  l.add("alignment-array", "is of type array of u32, expected u32", alignment(9, Bytes().u32_(4).u64_(1).u32_(32)));
}

inline void parameters(List& l) {  // 9, 10
  auto model = [](std::string_view k, u32 type, const Bytes& v) {
    Maker m;
    m.string_key("general.architecture", "qwen3moe");
    for (auto [name, x] :
         {std::pair("block_count", 2), {"embedding_length", 64}, {"attention.head_count", 4}, {"attention.head_count_kv", 2}}) {
      if (k != name) m.u32_key(std::string("qwen3moe.") + name, u64(x));
    }
    return m.key(k.starts_with("general.") || k.starts_with("tokenizer.") ? std::string(k) : "qwen3moe." + std::string(k), type, v);
  };
  auto number = [&](std::string_view k, u64 v) { return model(k, 4, Bytes().u32_(v)); };
  l.add("architecture-number", "expected string",
        model("general.architecture2", 4, Bytes().u32_(1)).key("general.type", 4, Bytes().u32_(1)));
  l.all.pop_back();  // other keys may have any type
  l.add("architecture-u32", "'general.architecture' is of type u32, expected string", Maker().u32_key("general.architecture", 1));
  l.add("architecture-array", "expected string", Maker().strings_key("general.architecture", {"llama"}));
  l.add("architecture-empty", "is a name of 0 bytes", Maker().string_key("general.architecture", ""));
  l.add("layers-0", "block_count' is 0", number("block_count", 0));
  l.add("layers-too-many", "block_count' is 100000, expected 1 to 1024", number("block_count", 100000));
  l.add("layers-4g", "block_count' is 4294967295", number("block_count", 0xffffffff));
  l.add("layers-negative", "block_count' is -1", model("block_count", 5, Bytes().u32_(0xffffffff)));
  l.add("layers-u64-max", "block_count' (u64) is not an integer", model("block_count", 10, Bytes().u64_(most)));
  l.add("layers-string", "block_count' (string) is not an integer", model("block_count", 8, Bytes().str("2")));
  l.add("layers-float", "block_count' (f32) is not an integer", model("block_count", 6, Bytes().f32_(2)));
  l.add("layers-array", "block_count' (array of u32) is not an integer", model("block_count", 9, Bytes().u32_(4).u64_(1).u32_(2)));
  l.add("width-0", "embedding_length' is 0", number("embedding_length", 0));
  l.add("width-huge", "embedding_length' is 2147483648", number("embedding_length", 0x80000000));
  l.add("heads-0", "head_count' is 0", number("attention.head_count", 0));
  l.add("heads-uneven", "does not divide the embedding length 64", number("attention.head_count", 6));
  l.add("kv-heads-0", "head_count_kv' is 0", number("attention.head_count_kv", 0));
  l.add("kv-heads-uneven", "does not divide 4 heads", number("attention.head_count_kv", 3));
  l.add("heads-list-short", "has 1 numbers for 2 layers", model("attention.head_count", 9, Bytes().u32_(4).u64_(1).u32_(4)));
  l.add("heads-list-huge", "holds 4294967295", model("attention.head_count", 9, Bytes().u32_(4).u64_(2).u32_(4).u32_(0xffffffff)));
  l.add("heads-list-negative", "holds -4", model("attention.head_count", 9, Bytes().u32_(5).u64_(2).u32_(4).u32_(u32(-4))));
  l.add("heads-list-strings", "is of type array of string", model("attention.head_count", 9, Bytes().u32_(8).u64_(1).str("4")));
  l.add("key-length-0", "key_length' is 0", number("attention.key_length", 0));
  l.add("vocab-0", "vocab_size' is 0", number("vocab_size", 0));
  l.add("context-0", "context_length' is 0", number("context_length", 0));
  l.add("rope-0", "dimension_count' is 0", number("rope.dimension_count", 0));
  l.add("experts-too-many", "expert_count' is 1000000", number("expert_count", 1000000));
  l.add("experts-used", "expert_used_count' is 3, of 2 experts", number("expert_used_count", 3).u32_key("qwen3moe.expert_count", 2));
  l.add("interval-0", "full_attention_interval' is 0", number("full_attention_interval", 0));
  l.add("conv-0", "conv_kernel' is 0", number("ssm.conv_kernel", 0));
  l.add("nextn", "nextn_predict_layers' is 2, of 2 layers", number("nextn_predict_layers", 2));
  l.add("sections-5", "at most 4 integers", model("rope.dimension_sections", 9, Bytes().u32_(5).u64_(5).zeros(20)));
  l.add("sections-huge", "holds 2147483647", model("rope.dimension_sections", 9, Bytes().u32_(5).u64_(1).u32_(0x7fffffff)));
  l.add("sections-number", "at most 4 integers", number("rope.dimension_sections", 11));
  const f32 nan = std::numeric_limits<f32>::quiet_NaN();
  l.add("epsilon-nan", "epsilon' is nan", model("attention.layer_norm_rms_epsilon", 6, Bytes().f32_(nan)));
  l.add("epsilon-negative", "epsilon' is -1", model("attention.layer_norm_rms_epsilon", 6, Bytes().f32_(-1)));
  l.add("epsilon-integer", "is of type u32, expected a float", number("attention.layer_norm_rms_epsilon", 1));
  l.add("base-0", "freq_base' is 0, expected more", model("rope.freq_base", 6, Bytes().f32_(0)));
  l.add("base-infinite", "freq_base' is inf", model("rope.freq_base", 6, Bytes().f32_(std::numeric_limits<f32>::infinity())));
  // The tokeniser's arrays.
  auto vocabulary = [](std::string_view k, u32 element, u64 n, const Bytes& v) {
    return Maker().strings_key("tokenizer.ggml.tokens", {"a", "b", "c"}).array_key(k, element, n, v);
  };
  l.add("tokens-u8", "expected array of string", Maker().array_key("tokenizer.ggml.tokens", 0, 3, Bytes().raw("abc")));
  l.add("tokens-string", "expected array of string", Maker().string_key("tokenizer.ggml.tokens", "abc"));
  l.add("scores-u8", "is of type array of u8, expected array of f32", vocabulary("tokenizer.ggml.scores", 0, 3, Bytes().raw("abc")));
  l.add("types-u8", "is of type array of u8, expected array of i32", vocabulary("tokenizer.ggml.token_type", 0, 3, Bytes().raw("\1\1\1")));
  l.add("types-i16", "is of type array of i16, expected array of i32", vocabulary("tokenizer.ggml.token_type", 3, 3, Bytes().zeros(6)));
  l.add("merges-u32", "is of type array of u32, expected array of string", vocabulary("tokenizer.ggml.merges", 4, 1, Bytes().u32_(0)));
  l.add("scores-short", "has 2 elements for 3 tokens", vocabulary("tokenizer.ggml.scores", 6, 2, Bytes().zeros(8)));
  l.add("types-long", "has 4 elements for 3 tokens", vocabulary("tokenizer.ggml.token_type", 5, 4, Bytes().zeros(16)));
  l.add("scores-alone", "has 1 elements, but tokenizer.ggml.tokens is missing",
        Maker().array_key("tokenizer.ggml.scores", 6, 1, Bytes().f32_(0)));
  l.add("eos-string", "eos_token_id' is of type string", Maker().string_key("tokenizer.ggml.eos_token_id", "2"));
  l.add("bos-array", "bos_token_id' is of type array of u32", vocabulary("tokenizer.ggml.bos_token_id", 4, 1, Bytes().u32_(0)));
}

inline Maker one(std::string_view name, const std::vector<u64>& dims, u32 type, size_t data, u64 offset = 0) {
  Maker m;
  m.tensor(name, dims, type, offset);
  m.data = data;
  return m;
}

inline void tensors(List& l) {  // 11 to 16
  l.add("name-empty", "name of 0 bytes", one("", {8}, 0, 32));
  l.add("name-64-bytes", "name of 64 bytes", one(std::string(64, 'n'), {8}, 0, 32));
  l.add("name-zero-byte", "has a zero byte", one(std::string_view("a\0b", 3), {8}, 0, 32));
  l.add("name-newline-long", "name of 70 bytes ('\\x0a", one("\n" + std::string(69, 'n'), {8}, 0, 32));
  l.add("name-twice", "tensor 'a' appears twice", one("a", {8}, 0, 64).tensor("a", {8}, 0, 32));
  auto raw = [](const Bytes& b) {
    Maker m;
    m.tensors.push_back(b);
    m.data = 64;
    return m;
  };
  l.add("name-length-max", "string of 18446744073709551615", raw(Bytes().u64_(most).raw("abc").u32_(1).u64_(8).u32_(0).u64_(0)));
  l.add("name-length-wraps", "string of 18446744073709551600", raw(Bytes().u64_(most - 15).raw("abc").u32_(1).u64_(8).u32_(0).u64_(0)));
  l.add("dims-5", "5 dimensions", one("a", {2, 2, 2, 2, 2}, 0, 128));
  l.add("dims-4g", "4294967295 dimensions", raw(Bytes().str("a").u32_(0xffffffff).u64_(8).u32_(0).u64_(0)));
  l.add("dims-negative", "2147483648 dimensions", raw(Bytes().str("a").u32_(0x80000000).u64_(8).u32_(0).u64_(0)));
  l.add("dim-0", "dimension 0 is 0", one("a", {0}, 0, 32));
  l.add("dim-0-second", "dimension 1 is 0", one("a", {8, 0}, 0, 32));
  l.add("dim-0-after-huge", "dimension 3 is 0", one("a", {1, u64(1) << 62, 1, 0}, 0, 32));
  l.add("dim-negative", "dimension 0 is -1", one("a", {most}, 0, 32));
  l.add("dim-top-bit", "dimension 1 is -9223372036854775808", one("a", {8, top}, 0, 32));
  l.add("product-wraps-to-0", "product of dimensions 0 to 1", one("a", {u64(1) << 32, u64(1) << 32}, 0, 32));
  l.add("product-wraps-to-8", "product of dimensions", one("a", {8, (u64(1) << 61) + 1}, 0, 32));
  l.add("product-4-dims", "product of dimensions 0 to 2", one("a", {u64(1) << 31, u64(1) << 31, u64(1) << 31, u64(1) << 31}, 0, 32));
  l.add("product-top-bit", "product of dimensions", one("a", {u64(1) << 62, 2}, 0, 32));
  for (u64 id : {4, 5, 31, 32, 33, 37, 38, 43, 133, 141, 144, 158, 202, 337, 399, 1000, 0x1002a, 0x7fffffff}) {
    l.add("type-" + std::to_string(id), "type id " + std::to_string(id) + " is not read", one("a", {256}, u32(id), 1024));
  }
  l.add("type-negative", "type id 4294967295 is not read", one("a", {256}, 0xffffffff, 1024));
  l.add("type-top-bit", "type id 2147483656 is not read", one("a", {256}, 0x80000008, 1024));
  l.add("row-q8_0", "row of 33, not a multiple of Q8_0's block of 32", one("a", {33}, 8, 1024));
  l.add("row-q2_k", "row of 128, not a multiple of Q2_K's block of 256", one("a", {128, 2}, 10, 1024));
  l.add("row-pq2_0", "row of 64, not a multiple of PQ2_0's block of 128", one("a", {64, 2}, 142, 1024));
  l.add("row-q2_0", "row of 32, not a multiple of Q2_0's block of 64", one("a", {32, 2}, 42, 1024));
  l.add("row-scalar", "row of 1, not a multiple of Q4_0's block of 32", one("a", {}, 2, 1024));
  l.add("i2_s-elements", "element count of 192, not a multiple of I2_S's block of 128", one("a", {64, 3}, 36, 1024));
  l.add("size-f64-wraps", "its size cannot be computed", one("a", {(u64(1) << 61) + 1}, 28, 1024));
  l.add("size-q8_0-wraps", "its size cannot be computed", one("a", {32, (u64(1) << 58) - 1}, 8, 1024));
  l.add("size-i2_s", "the data section has 1024", one("a", {128, (u64(1) << 55) - 1}, 36, 1024));
  l.add("size-2^62", "the data section has 1024", one("a", {u64(1) << 60}, 0, 1024));
  l.add("bitnet-tl2", "is TL2", one("a", {128}, 36, 128).tensor("b", {32}, 39, 64).u32_key("general.file_type", 40));
}

inline void layout(List& l) {  // 17, 18, 20, 21
  l.add("offset-unaligned", "offset 8 is not a multiple of the alignment 32", one("a", {8}, 0, 64, 8));
  l.add("offset-first", "offset 32, expected 0", one("a", {8}, 0, 64, 32));
  l.add("offset-wraps", "offset 18446744073709551584, expected 0", one("a", {8}, 0, 64, most - 31));
  l.add("offset-top-bit", "offset 9223372036854775808, expected 32", one("a", {8}, 0, 64).tensor("b", {8}, 0, top));
  l.add("offset-past-end", "offset 1048576, expected 32", one("a", {8}, 0, 64).tensor("b", {8}, 0, 1 << 20));
  l.add("overlap", "offset 32, expected 64, the sum of the padded sizes before it (overlap)",
        one("a", {16}, 0, 128).tensor("b", {8}, 0, 32));
  l.add("overlap-same", "offset 0, expected 32", one("a", {8}, 0, 64).tensor("b", {8}, 0, 0));
  l.add("gap", "offset 64, expected 32, the sum of the padded sizes before it (gap)", one("a", {8}, 0, 128).tensor("b", {8}, 0, 64));
  l.add("order", "offset 32, expected 0", one("a", {8}, 0, 64, 32).tensor("b", {8}, 0, 0));
  l.add("data-one-byte-short", "32 bytes at offset 0, the data section has 31", one("a", {8}, 0, 31));
  l.add("data-none", "the data section has 0", one("a", {8}, 0, 0));
  l.add("dims-larger-than-data", "4294967296 bytes at offset 0", one("a", {u64(1) << 30}, 0, 64));
  l.add("sum-wraps", "tensor 'a' (4611686018427387872, I8)",
        one("a", {(u64(1) << 62) - 32}, 24, 64)
            .tensor("b", {(u64(1) << 62)}, 24, (u64(1) << 62) - 32)
            .tensor("c", {64}, 24, (u64(1) << 63) - 32));
  l.add("sum-wraps-padding", "the data section has 64", one("a", {u64(0x7fffffffffffffff)}, 24, 64).tensor("b", {u64(1) << 62}, 24, top));
  Maker m = one("a", {8}, 0, 0);
  m.pad = false;
  l.add("data-start-past-end", "the data section would start at byte", m);
  m = one("a", {8}, 0, 0).u32_key("general.alignment", 65536);
  l.add("data-start-64k", "would start at byte 65536", m);
  // 20: 4 blocks of 128: 136 bytes in the early layout, 144 in today's, padded to 160 both; 8 blocks: 272 -> 288 and 288 -> 288; 16: 544
  // and 576.
  l.add("legacy-successor", "groups of 128", one("a", {2048}, 42, 576).tensor("b", {8}, 0, 544));
  l.add("legacy-alone", "groups of 128", one("a", {2048}, 42, 544));
  l.add("legacy-second", "tensor 'c'", one("a", {512}, 42, 160 + 544 + 32).tensor("b", {2048}, 42, 160).tensor("c", {8}, 0, 704));
  l.add("legacy-rows-of-64", "groups of 128", one("a", {64}, 42, 32 + 544 + 32).tensor("b", {2048}, 42, 32).tensor("c", {8}, 0, 576));
  l.add("legacy-cut-short", "tensor 'b'", one("a", {2048}, 42, 576).tensor("b", {2048}, 42, 576).tensor("c", {8}, 0, 1152));
  const OpenOptions legacy{.q2_0_legacy = true};
  l.add("legacy-asked-current-offsets", "are those of groups of 64", one("a", {2048}, 42, 608).tensor("b", {8}, 0, 576), legacy);
  l.add("legacy-asked-current-size", "is that of groups of 64", one("a", {2048}, 42, 576), legacy);
  l.add("legacy-asked-short", "Q2_0 in groups of 128): 544 bytes", one("a", {2048}, 42, 543), legacy);
  l.add("legacy-asked-gap", "offset 640, expected 544", one("a", {2048}, 42, 800).tensor("b", {8}, 0, 640), legacy);
  l.add("ik-iq2_tn", "IQ2_TN", one("a", {8192}, 142, 4096).tensor("b", {8}, 0, 2080));  // IQ2_TN took 64 bytes per 256 and 4 per row
  l.add("ik-iq1_tn", "IQ1_TN", one("a", {1024}, 143, 1024).tensor("b", {8}, 0, 256));
}

inline void data(List& l) {  // 23
  const OpenOptions checking{.check_data = true};
  auto with = [](u32 type, u64 n, const Bytes& b) {
    Maker m;
    m.tensor("a", {n}, type, 0);
    std::vector<u8> out = m.bytes();
    out.insert(out.end(), b.b.begin(), b.b.end());
    return out;
  };
  l.add("data-f32-nan", "tensor 'a' (F32)", with(0, 2, Bytes().f32_(1).u32_(0x7fc00000)), checking);
  l.add("data-f16-infinite", "tensor 'a' (F16)", with(1, 1, Bytes().u16_(0x7c00)), checking);
  l.add("data-q8_0-scale", "tensor 'a' (Q8_0)", with(8, 32, Bytes().u16_(0x7e00).zeros(32)), checking);
  l.add("data-pq2_0-scale", "tensor 'a' (PQ2_0)", with(142, 128, Bytes().u16_(0xfc00).zeros(32)), checking);
  l.add("data-iq1_m-scale", "tensor 'a' (IQ1_M)", with(29, 256, Bytes().zeros(48).u16_(0).u16_(0).u16_(0xc000).u16_(0x7000)), checking);
  l.add("data-mxfp4-exponent", "tensor 'a' (MXFP4)", with(39, 32, Bytes().raw("\xff").zeros(16)), checking);
  l.add("data-i2_s-code", "tensor 'a' (I2_S)", with(36, 128, Bytes().zeros(31).raw("\xc0").f32_(1).zeros(28)), checking);
  l.add("data-i2_s-scale", "tensor 'a' (I2_S)", with(36, 128, Bytes().zeros(32).u32_(0x7f800000).zeros(28)), checking);
}

}  // namespace detail

inline std::vector<Case> cases() {
  detail::List l;
  detail::header(l);
  detail::keys(l);
  detail::parameters(l);
  detail::tensors(l);
  detail::layout(l);
  detail::data(l);
  return std::move(l.all);
}

}  // namespace fewbit::gguf::hostile
