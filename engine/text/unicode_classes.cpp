#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/unicode_classes.hpp"

#include <pcre2.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {
namespace {

using code_ptr = std::unique_ptr<pcre2_code, decltype([](pcre2_code* p) { pcre2_code_free(p); })>;
using match_ptr = std::unique_ptr<pcre2_match_data, decltype([](pcre2_match_data* p) { pcre2_match_data_free(p); })>;

// Planes 4 to 13, 15 and 16 hold no character of any class asked for here.
constexpr std::pair<char32_t, char32_t> k_probed[] = {{0x0000, 0xD7FF}, {0xE000, 0x3FFFF}, {0xE0000, 0xE0FFF}};

constexpr std::pair<char32_t, char32_t> k_white_space[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      put(0xE0 | (c >> 12));
    } else {
      put(0xF0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3F));
    }
    put(0x80 | ((c >> 6) & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

// Sets `flag` for every character of `subject` that `pattern`, a class with a plus, matches.
result<void> mark(const std::string& subject, const char* pattern, std::uint8_t flag, std::vector<std::uint8_t>& flags) {
  int code_error = 0;
  PCRE2_SIZE error_offset = 0;
  const code_ptr code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                    &code_error, &error_offset, nullptr));
  if (!code) return fail(errc::unsupported, std::string("the PCRE2 library refuses ") + pattern);
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  const match_ptr match(pcre2_match_data_create(1, nullptr));
  PCRE2_SIZE at = 0;
  while (at < subject.size()) {
    const int count = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), at,
                                  PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH) return {};
    if (count < 0) return fail(errc::unsupported, std::string("the PCRE2 library fails on ") + pattern);
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
    at = span[1];
    for (std::string_view run(subject.data() + span[0], span[1] - span[0]); !run.empty();) {
      const utf8_step step = next_char(run);
      flags[step.code_point] |= flag;
      run.remove_prefix(step.size);
    }
  }
  return {};
}

result<std::vector<std::uint8_t>> all_flags() {
  std::string subject;
  for (const auto& [first, last] : k_probed) {
    for (char32_t c = first; c <= last; ++c) append_utf8(subject, c);
  }
  std::vector<std::uint8_t> flags(k_code_point_max + 1);
  const std::pair<const char*, std::uint8_t> classes[] = {
      {"\\p{sc:Han}+", k_han},
      {"[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+", k_upper},
      {"[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+", k_lower},
      {"\\p{L}+", k_letter},
      {"\\p{N}+", k_number}};
  for (const auto& [pattern, flag] : classes) {
    if (auto ok = mark(subject, pattern, flag, flags); !ok) return std::unexpected(ok.error());
  }
  for (auto& f : flags) {
    if (f & k_han) f = static_cast<std::uint8_t>(f & ~(k_upper | k_lower));
  }
  for (const auto& [first, last] : k_white_space) {
    for (char32_t c = first; c <= last; ++c) flags[c] |= k_space;
  }
  flags['\r'] |= k_newline;
  flags['\n'] |= k_newline;
  return flags;
}

}  // namespace

result<unicode_classes> unicode_classes::build() {
  const auto flags = all_flags();
  if (!flags) return std::unexpected(flags.error());
  unicode_classes out;
  std::map<std::string, std::uint16_t> known;
  for (std::size_t block = 0; block < out.block_index_.size(); ++block) {
    const auto* first = flags->data() + block * 256;
    const auto next = static_cast<std::uint16_t>(known.size());
    const auto [it, added] = known.emplace(std::string(first, first + 256), next);
    if (added) out.blocks_.insert(out.blocks_.end(), first, first + 256);
    out.block_index_[block] = it->second;
  }
  return out;
}

}  // namespace weir::engine::text
