#include "text/utf8.h"

#include <algorithm>

namespace fewbit::text {
namespace {

struct Part {
  int length;     // bytes of the longest prefix that is a (partial) character, at least 1
  bool complete;  // a whole character
  bool cut;       // a proper prefix of a character that stops at the end of the text
};

// The lead byte fixes the length and the range of the second byte (no overlong forms, no surrogates, nothing above U+10FFFF).
Part part_at(std::string_view s) {
  u8 lead = u8(s[0]), low = 0x80, high = 0xBF;
  int n = 0;
  if (lead < 0x80) return {1, true, false};
  if (lead >= 0xC2 && lead <= 0xDF) {
    n = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    n = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    n = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false, false};
  }
  int i = 1;
  for (; i < n && size_t(i) < s.size(); i++, low = 0x80, high = 0xBF) {
    if (u8(s[size_t(i)]) < low || u8(s[size_t(i)]) > high) return {i, false, false};
  }
  return {i, i == n, i < n};
}

}  // namespace

size_t append_valid(std::string_view bytes, std::string& out, bool end) {
  size_t start = 0, at = 0;  // [start, at): well-formed, not yet copied
  while (at < bytes.size()) {
    if (u8(bytes[at]) < 0x80) {
      at++;
      continue;
    }
    Part p = part_at(bytes.substr(at));
    if (p.complete) {
      at += size_t(p.length);
      continue;
    }
    out.append(bytes, start, at - start);
    start = at;
    if (p.cut && !end) return at;
    out += replacement_character;
    start = at += size_t(p.length);
  }
  out.append(bytes, start, at - start);
  return bytes.size();
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  append_valid(bytes, out, true);
  return out;
}

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    Part p = part_at(bytes);
    if (!p.complete) return false;
    bytes.remove_prefix(size_t(p.length));
  }
  return true;
}

void append_code_point(u32 c, std::string& out) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xC0 | c >> 6);
    out += char(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += char(0xE0 | c >> 12);
    out += char(0x80 | (c >> 6 & 0x3F));
    out += char(0x80 | (c & 0x3F));
  } else {
    out += char(0xF0 | c >> 18);
    out += char(0x80 | (c >> 12 & 0x3F));
    out += char(0x80 | (c >> 6 & 0x3F));
    out += char(0x80 | (c & 0x3F));
  }
}

}  // namespace fewbit::text
