#include "gateway/relay/event_splitter.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

namespace weir::gateway::relay {
namespace {

struct outcome {
  std::vector<std::string> events;
  std::string rest;
  bool awaits_lf = false;
};

// Shows `bytes` as a relay would: what was returned is gone from the next buffer.
outcome split(const std::string& bytes, const std::vector<std::size_t>& cuts) {
  event_splitter splitter;
  outcome out;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    while (true) {
      const std::vector<char> shown(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                                    bytes.begin() + static_cast<std::ptrdiff_t>(cut));
      const auto size = splitter.next({shown.data(), shown.size()});
      if (!size) break;
      REQUIRE(*size > 0);
      REQUIRE(*size <= shown.size());
      out.events.push_back(bytes.substr(begin, *size));
      begin += *size;
    }
  }
  out.rest = bytes.substr(begin);
  out.awaits_lf = splitter.awaits_lf();
  return out;
}

std::string join(const outcome& from) {
  std::string all;
  for (const auto& event : from.events) all += event;
  return all + from.rest;
}

// The lines with a field, event by event: what a client makes of it.
std::vector<std::string> fields(const outcome& from) {
  std::vector<std::string> out;
  for (const auto& event : from.events) {
    std::string lines;
    for (const char c : event) lines += c == '\r' ? '\n' : c;
    std::string text;
    for (const char c : lines) {
      if (c != '\n' || (!text.empty() && text.back() != '\n')) text += c;
    }
    if (!text.empty()) out.push_back(text);
  }
  return out;
}

std::vector<std::size_t> every_byte(std::size_t size) {
  std::vector<std::size_t> cuts;
  for (std::size_t i = 0; i <= size; ++i) cuts.push_back(i);
  return cuts;
}

}  // namespace

TEST_CASE("events end with a blank line of any line end") {
  struct row {
    const char* name;
    std::string bytes;
    std::vector<std::string> events;
    std::string rest;
  };
  const row rows[] = {
      {"nothing", "", {}, ""},
      {"LF", "a\n\nb\n\n", {"a\n\n", "b\n\n"}, ""},
      {"CRLF", "a\r\n\r\nb\r\n\r\n", {"a\r\n\r\n", "b\r\n\r\n"}, ""},
      {"CR", "a\r\rb\r\r", {"a\r\r", "b\r\r"}, ""},
      {"CR then LF is one end", "a\r\nb\r\n", {}, "a\r\nb\r\n"},
      {"LF then CR is two", "a\n\rb", {"a\n\r"}, "b"},
      {"LF then CRLF", "a\n\r\nb", {"a\n\r\n"}, "b"},
      {"CRLF then LF", "a\r\n\nb", {"a\r\n\n"}, "b"},
      {"CR then CRLF", "a\r\r\nb", {"a\r\r\n"}, "b"},
      {"CRLF then CR", "a\r\n\rb", {"a\r\n\r"}, "b"},
      {"several lines", "a: b\nc\r\nd\re\n\n", {"a: b\nc\r\nd\re\n\n"}, ""},
      {"blank lines alone", "\n\r\n\r", {"\n", "\r\n", "\r"}, ""},
      {"no blank line", "a\nb", {}, "a\nb"},
      {"comment", ": ping\n\n", {": ping\n\n"}, ""},
      {"NUL and UTF-8", std::string("\0\xc3\xa9\n\n", 5), {std::string("\0\xc3\xa9\n\n", 5)}, ""},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const outcome whole = split(r.bytes, {r.bytes.size()});
    CHECK(whole.events == r.events);
    CHECK(whole.rest == r.rest);
  }
}

TEST_CASE("a line end is found at any distance") {
  for (const char* ends : {"\n", "\r", "\r\n", "\n\r"}) {
    for (std::size_t line_bytes = 0; line_bytes < 300; ++line_bytes) {
      const std::string text = std::string(line_bytes, 'x') + ends + std::string(200, 'y') + "\n";
      const std::vector<char> shown(text.begin(), text.end());
      const std::string_view buffer(shown.data(), shown.size());
      for (const std::size_t from :
           {std::size_t{0}, line_bytes / 2, line_bytes, line_bytes + 1, text.size()}) {
        REQUIRE(find_line_end(buffer, from) == std::min(text.find_first_of("\r\n", from), text.size()));
      }
      const std::string_view line = buffer.substr(0, line_bytes);
      REQUIRE(find_line_end(line, 0) == line_bytes);
    }
  }
}

TEST_CASE("the LF of a cut CRLF begins what comes next") {
  event_splitter splitter;
  CHECK(splitter.next("a\r\n\r") == 4u);
  CHECK(splitter.awaits_lf());
  CHECK_FALSE(splitter.next("").has_value());
  CHECK(splitter.awaits_lf());
  CHECK_FALSE(splitter.next("\n").has_value());
  CHECK_FALSE(splitter.awaits_lf());
  CHECK(splitter.next("\nb\r\n\r\n") == 6u);
  CHECK_FALSE(splitter.awaits_lf());
  CHECK(splitter.next("c\r\r") == 3u);
  CHECK_FALSE(splitter.next("d").has_value());
  CHECK_FALSE(splitter.awaits_lf());
}

TEST_CASE("no byte is lost and no event differs, however the stream is cut") {
  const unsigned seed = 20261129;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const char alphabet[] = {'\n', '\r', '\n', '\r', 'a', ':'};
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (std::size_t left = random() % 24; left > 0; --left) bytes += alphabet[random() % sizeof alphabet];
    const outcome whole = split(bytes, {bytes.size()});
    REQUIRE(join(whole) == bytes);
    const outcome bytewise = split(bytes, every_byte(bytes.size()));
    REQUIRE(join(bytewise) == bytes);
    REQUIRE(fields(bytewise) == fields(whole));
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      const outcome halves = split(bytes, {cut, bytes.size()});
      REQUIRE(join(halves) == bytes);
      REQUIRE(fields(halves) == fields(whole));
    }
  }
}

}  // namespace weir::gateway::relay
