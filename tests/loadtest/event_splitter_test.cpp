#include "loadtest/event_splitter.hpp"

#include <catch2/catch.hpp>

namespace weir::loadtest {
namespace {

struct stream_case {
  const char* name;
  std::string bytes;
  std::vector<std::string> events;
};

const stream_case k_cases[] = {
    {"line feeds", "data: a\n\ndata: b\n\n", {"a", "b"}},
    {"carriage returns", "data: a\r\rdata: b\r\r", {"a", "b"}},
    {"both", "data: a\r\n\r\ndata: b\r\n\r\n", {"a", "b"}},
    {"no space", "data:a\n\n", {"a"}},
    {"two data lines are one event", "data: a\ndata: b\n\n", {"a\nb"}},
    {"comments and other fields", ": ping\n\nevent: x\ndata: a\nid: 1\n\n", {"a"}},
    {"an event that never ends", "data: a", {}},
};

TEST_CASE("events come out whole wherever the stream is cut") {
  for (const auto& c : k_cases) {
    for (std::size_t cut = 0; cut <= c.bytes.size(); ++cut) {
      event_splitter splitter;
      std::vector<std::string> events;
      CHECK(splitter.push(std::string_view(c.bytes).substr(0, cut), events));
      CHECK(splitter.push(std::string_view(c.bytes).substr(cut), events));
      INFO(c.name << ", cut at " << cut);
      CHECK(events == c.events);
    }
  }
}

TEST_CASE("an endless event is refused") {
  event_splitter splitter;
  std::vector<std::string> events;
  const std::string block(1 << 20, 'x');
  bool ok = splitter.push("data: ", events);
  for (int i = 0; i < 17 && ok; ++i) ok = splitter.push(block, events);
  CHECK_FALSE(ok);
}

}  // namespace
}  // namespace weir::loadtest
