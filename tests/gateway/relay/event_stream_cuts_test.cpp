#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/gateway/relay/stream_run.hpp"

namespace weir::gateway::relay {
namespace {

using testing::run;
using testing::stream_outcome;

// A recorded stream of an OpenAI-compatible server, shortened, with `eol` for its line ends.
std::string recorded(const std::string& eol, const std::string& tail) {
  const std::string lines =
      ": keep-alive||"
      "data: "
      "{\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}||"
      "data:{\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xe6\xbc\xa2\"},"
      "\"logprobs\":null}],\"seed\":123456789012345678901234}||"
      "event: message|data: {\"choices\":[{\"index\":0,\"delta\":|data: {\"content\":\"!\"}}]}||"
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}||"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}||" +
      tail;
  std::string out;
  for (const char c : lines) out += c == '|' ? eol : std::string(1, c);
  return out;
}

}  // namespace

TEST_CASE("a stream yields the same bytes and the same end, however it is cut") {
  struct row {
    const char* name;
    std::string tail;
  };
  const row rows[] = {
      {"done", "data: [DONE]||"},
      {"done without its blank line", "data: [DONE]|"},
      {"done without a line end", "data: [DONE]"},
      {"no done", ""},
      {"an error", "data: {\"error\":{\"message\":\"m\",\"code\":429}}||"},
      {"nonsense", "data: {\"choices\":||"},
      {"more behind done", "data: [DONE]||: bye||data: {}||"},
  };
  event_inspector inspector;
  for (const auto& r : rows) {
    for (const char* eol : {"\n", "\r\n", "\r"}) {
      for (const bool drop_usage : {false, true}) {
        const std::string bytes = recorded(eol, r.tail);
        INFO(r.name << ", line end of " << std::string(eol).size() << ", first byte " << int{eol[0]});
        const event_stream::options options{.drop_usage = drop_usage};
        const stream_outcome whole = run(inspector, options, bytes, {bytes.size()});
        REQUIRE(whole.started);
        CHECK(whole.usage.prompt_tokens == 7);
        CHECK((whole.released.find("prompt_tokens") == std::string::npos) == drop_usage);
        std::vector<std::size_t> each;
        for (std::size_t i = 0; i <= bytes.size(); ++i) each.push_back(i);
        CHECK(run(inspector, options, bytes, each) == whole);
        for (const std::size_t cut : each) {
          if (run(inspector, options, bytes, {cut, bytes.size()}) != whole) FAIL_CHECK("cut at " << cut);
        }
      }
    }
  }
}

TEST_CASE("what goes is whole events of the input in their order") {
  const unsigned seed = 20261129;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> events = {
      ": ping\n\n",
      "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\r\n\r\n",
      "data: {\"choices\":[{\"text\":\"x\"}]}\r\r",
      "data: {\"choices\":[{\"text\":\"y\"}]}\n\n",
      "data: {\"choices\":[],\"usage\":{}}\r\n\r\n",
      "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n",
      "data: [DONE]\n\n",
      "data: {\"error\":\"e\"}\n\n",
      "data: nonsense\n\n",
  };
  event_inspector inspector;
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    std::vector<std::size_t> ends{0};
    for (std::size_t count = 1 + random() % 8; count > 0; --count) {
      bytes += events[random() % events.size()];
      if (bytes.ends_with("\r\n")) ends.push_back(bytes.size() - 1);
      ends.push_back(bytes.size());
    }
    std::vector<std::size_t> cuts;
    for (std::size_t at = 0; at < bytes.size();) {
      at = std::min(bytes.size(), at + 1 + random() % 30);
      cuts.push_back(at);
    }
    const stream_outcome got = run(inspector, {}, bytes, cuts);
    REQUIRE(bytes.starts_with(got.released));
    REQUIRE(std::find(ends.begin(), ends.end(), got.released.size()) != ends.end());
    const stream_outcome whole = run(inspector, {}, bytes, {bytes.size()});
    INFO(bytes << "\n" << got.released << got.message << "\n" << whole.released << whole.message);
    REQUIRE(got == whole);
  }
}

}  // namespace weir::gateway::relay
