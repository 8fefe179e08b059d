#include "gateway/relay/event_stream.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "tests/gateway/relay/stream_run.hpp"

namespace weir::gateway::relay {
namespace {

using state = event_stream::state;
using testing::run;
using testing::stream_outcome;

const std::string k_role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const std::string k_text = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
const std::string k_second = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"yo\"}}]}\n\n";
const std::string k_stop = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const std::string k_usage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n";
const std::string k_done = "data: [DONE]\n\n";
const std::string k_ping = ": ping\n\n";
const std::string k_error = "data: {\"error\":{\"message\":\"too hot\",\"code\":400}}\n\n";
const std::string k_nonsense = "data: oops\n\n";

stream_outcome run_whole(const std::string& bytes, event_stream::options options = {}) {
  event_inspector inspector;
  return run(inspector, options, bytes, {bytes.size()});
}

}  // namespace

TEST_CASE("nothing goes before the first content") {
  event_inspector inspector;
  event_stream stream({}, inspector);
  CHECK(stream.push(k_ping) == state::hold);
  CHECK(stream.push(k_role) == state::hold);
  CHECK(stream.push(k_text.substr(0, 20)) == state::hold);
  CHECK_FALSE(stream.started());
  CHECK(stream.push(k_text.substr(20)) == state::release);
  CHECK(stream.released() == k_ping + k_role + k_text);
  CHECK(stream.started());
  CHECK(stream.push({}) == state::hold);
  CHECK(stream.push(k_ping) == state::release);
  CHECK(stream.released() == k_ping);
  CHECK(stream.push(k_text + k_text.substr(0, 7)) == state::release);
  CHECK(stream.released() == k_text);
  CHECK(stream.push(k_text.substr(7)) == state::release);
  CHECK(stream.released() == k_text);
  CHECK_FALSE(stream.complete());
  CHECK(stream.push(k_stop + k_done) == state::release);
  CHECK(stream.released() == k_stop + k_done);
  CHECK(stream.complete());
  CHECK(stream.end() == state::hold);
}

TEST_CASE(
    "events that show something are counted as they are released, however lines end; comments are not") {
  for (const std::string line_end : {"\n", "\r\n", "\r"}) {
    std::string bytes;
    for (const auto& part : {k_ping, k_role, k_text, k_ping, k_second, k_ping, k_stop, k_done}) bytes += part;
    for (std::size_t at = 0; (at = bytes.find('\n', at)) != bytes.npos; at += line_end.size()) {
      bytes.replace(at, 1, line_end);
    }
    event_inspector inspector;
    event_stream stream({}, inspector);
    stream.push(std::string_view(bytes).substr(0, bytes.find("hi")));
    CHECK(stream.shown() == 0);
    stream.push(std::string_view(bytes).substr(bytes.find("hi")));
    CHECK(stream.shown() == 2);
  }
}

TEST_CASE("an early report does not hide what was shown behind it, and the last one stands") {
  const std::string early =
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],"
      "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":0}}\n\n";
  struct row {
    const char* name;
    std::string bytes;
    std::int64_t completion;
  };
  const std::string three = k_text + k_text + k_text;
  const row rows[] = {
      {"no report", three, 0},
      {"behind all", three + k_usage, 2},
      {"in front of all", k_usage + three, 3},
      {"more than was shown", k_usage + k_text, 2},
      {"with the first", early + three, 4},
      {"with the first, and behind all", early + three + k_usage, 2},
      {"of nothing behind one of something", three + k_usage + "data: {\"choices\":[],\"usage\":{}}\n\n", 2},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(run_whole(r.bytes).usage.completion_tokens == r.completion);
    CHECK(run_whole(r.bytes, {.drop_usage = true}).usage.completion_tokens == r.completion);
  }
}

TEST_CASE("a target refuses in an error event before any content, and only there") {
  for (const auto& [bytes, refused] : {std::pair{k_role + k_error, true}, std::pair{k_text + k_error, false},
                                       std::pair{k_nonsense, false}, std::pair{k_done, false}}) {
    event_inspector inspector;
    event_stream stream({}, inspector);
    stream.push(bytes);
    stream.push({});
    CHECK(stream.failed());
    CHECK((stream.error_event() != nullptr && !stream.started()) == refused);
  }
}

TEST_CASE("how streams end") {
  struct row {
    const char* name;
    std::string bytes;
    std::string released;
    bool complete;
    const char* message;  // null: ended in order
    errc code = errc::stream_interrupted;
  };
  const std::string no_answer = k_ping + k_role;
  const row rows[] = {
      {"done", k_text + k_done, k_text + k_done, true, nullptr},
      {"finish_reason without done", k_text + k_stop, k_text + k_stop, false, nullptr},
      {"finish_reason alone", k_stop, k_stop, false, nullptr},
      {"comments behind done", k_text + k_done + k_ping, k_text + k_done + k_ping, true, nullptr},
      {"no last blank line", k_text + "data: [DONE]\n", k_text + k_done, true, nullptr},
      {"no last line end", k_text + "data: [DONE]", k_text + k_done, true, nullptr},
      {"a last CR", k_text + "data: [DONE]\r", k_text + "data: [DONE]\r\n\n", true, nullptr},
      {"a cut comment behind finish_reason", k_stop + ": x", k_stop, false, nullptr},
      {"no content before done", no_answer + k_done, "", false, "without an answer", errc::upstream_failed},
      {"done alone", k_done, "", false, "without an answer", errc::upstream_failed},
      {"usage and done", k_usage + k_done, "", false, "without an answer", errc::upstream_failed},
      {"nothing at all", "", "", false, "before the answer was complete", errc::upstream_failed},
      {"no content", no_answer, "", false, "before the answer was complete", errc::upstream_failed},
      {"cut within the first content", no_answer + "data: {\"choices\":[{\"text\":\"x\"}]}", "", false,
       "before the answer was complete", errc::upstream_failed},
      {"cut behind content", k_text, k_text, false, "before the answer was complete"},
      {"cut within a later event", k_text + k_text.substr(0, 12), k_text, false,
       "before the answer was complete"},
      {"cut before a later blank line", k_text + k_text.substr(0, k_text.size() - 2), k_text, false,
       "before the answer was complete"},
      {"error first", k_role + k_error, "", false, "too hot", errc::bad_request},
      {"error first, no blank line", k_error.substr(0, k_error.size() - 2), "", false, "too hot",
       errc::bad_request},
      {"error within", k_text + k_error + k_text, k_text + k_error, false, "failed within its stream"},
      {"nonsense first", k_role + k_nonsense, "", false, "not a JSON object", errc::upstream_failed},
      {"nonsense within", k_text + k_nonsense + k_done, k_text, false, "not a JSON object"},
      {"content behind done", k_text + k_done + k_text, k_text + k_done, true, "went on after the end"},
      {"done twice", k_text + k_done + k_done, k_text + k_done, true, "went on after the end"},
      {"nonsense behind done", k_text + k_done + k_nonsense, k_text + k_done, true, "went on after the end"},
      {"one choice of two finished", k_second + k_stop, k_second + k_stop, false,
       "before the answer was complete"},
      {"half an event behind done", k_text + k_done + "data", k_text + k_done, true, nullptr},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const stream_outcome got = run_whole(r.bytes);
    INFO(got.message);
    CHECK(got.released == r.released);
    CHECK(got.started == !r.released.empty());
    CHECK(got.complete == r.complete);
    CHECK(got.failed == (r.message != nullptr));
    if (!got.failed || r.message == nullptr) continue;
    CHECK(got.code == r.code);
    CHECK(got.message.find(r.message) != std::string::npos);
  }
}

TEST_CASE("an error has the status that the target means") {
  struct row {
    const char* code;
    errc expected;
  };
  const row rows[] = {
      {"400", errc::bad_request},      {"404", errc::bad_request},          {"409", errc::bad_request},
      {"413", errc::bad_request},      {"\"422\"", errc::bad_request},      {"429", errc::overloaded},
      {"503", errc::overloaded},       {"401", errc::upstream_failed},      {"500", errc::upstream_failed},
      {"null", errc::upstream_failed}, {"\"text\"", errc::upstream_failed},
  };
  for (const auto& r : rows) {
    INFO(r.code);
    const auto got =
        run_whole("data: {\"error\":{\"message\":\"m\",\"code\":" + std::string(r.code) + "}}\n\n");
    CHECK(got.failed);
    CHECK(got.code == r.expected);
    CHECK(got.message == "m");
    CHECK_FALSE(got.error_sent);
  }
  CHECK(run_whole("data: {\"error\":{\"code\":7}}\n\n").message == "the target failed");
  const auto within = run_whole(k_text + k_error);
  CHECK(within.error_sent);
  CHECK(within.code == errc::stream_interrupted);
}

TEST_CASE("our own usage event never goes") {
  const std::string bytes = k_text + k_stop + k_usage + k_done;
  const auto kept = run_whole(bytes);
  CHECK(kept.released == bytes);
  CHECK(kept.usage.prompt_tokens == 7);
  const auto dropped = run_whole(bytes, {.drop_usage = true});
  CHECK(dropped.released == k_text + k_stop + k_done);
  CHECK(dropped.usage.prompt_tokens == 7);
  CHECK(dropped.usage.completion_tokens == 2);
  // Usage beside a choice is not an event of its own; the last report counts.
  const std::string beside = "data: {\"choices\":[{\"text\":\"x\"}],\"usage\":{\"prompt_tokens\":3}}\n\n";
  const auto both = run_whole(beside + k_stop + k_usage + k_done, {.drop_usage = true});
  CHECK(both.released == beside + k_stop + k_done);
  CHECK(both.usage.prompt_tokens == 7);
  CHECK(run_whole(k_usage + beside + k_stop, {.drop_usage = true}).usage.prompt_tokens == 3);
  const auto last = run_whole(k_text + k_stop + k_usage.substr(0, k_usage.size() - 2), {.drop_usage = true});
  CHECK(last.released == k_text + k_stop);
  CHECK_FALSE(last.failed);
}

TEST_CASE("the line end of a dropped event goes with it, however it is cut") {
  event_inspector inspector;
  event_stream stream({.drop_usage = true}, inspector);
  CHECK(stream.push(k_text) == state::release);
  CHECK(stream.push("data: {\"usage\":{}}\r\n\r") == state::hold);
  CHECK(stream.push("\n") == state::hold);
  CHECK(stream.push("data: [DONE]\r\n\r") == state::release);
  CHECK(stream.released() == "data: [DONE]\r\n\r");
  CHECK_FALSE(stream.complete());  // its last byte may still come
  CHECK(stream.push("\n") == state::release);
  CHECK(stream.released() == "\n");
  CHECK(stream.complete());
  CHECK(stream.end() == state::hold);
}

TEST_CASE("a preamble over its bound starts the stream") {
  std::string preamble;
  while (preamble.size() + k_ping.size() <= k_preamble_bytes_max) preamble += k_ping;
  event_inspector inspector;
  event_stream stream({}, inspector);
  CHECK(stream.push(preamble) == state::hold);
  CHECK(stream.push(k_ping) == state::release);
  CHECK(stream.released() == preamble + k_ping);
  CHECK(stream.push(k_ping) == state::release);  // nothing is held from then on
  CHECK(stream.push(k_error) == state::release);
  CHECK(stream.released() == k_error);
  CHECK(stream.error_sent());
  CHECK(stream.push({}) == state::failed);
  CHECK(stream.failure().code == errc::stream_interrupted);

  const auto at_once = run_whole(preamble + k_ping + k_error);
  CHECK(at_once.released == preamble + k_ping + k_error);
  CHECK(at_once.code == errc::stream_interrupted);
  const auto empty = run_whole(preamble + k_ping + k_done);
  CHECK(empty.released == preamble + k_ping);
  CHECK(empty.code == errc::stream_interrupted);
  CHECK_FALSE(empty.complete);
  const auto below = run_whole(preamble + k_error);
  CHECK(below.released.empty());
  CHECK(below.code == errc::bad_request);
}

TEST_CASE("an event has a largest size") {
  const std::size_t max = k_text.size();
  const std::string longer = "data: {\"choices\":[{\"delta\":{\"content\":\"hi!\"}}]}\n\n";
  CHECK_FALSE(run_whole(k_text + k_done, {.event_bytes_max = max}).failed);
  const auto within = run_whole(k_text + longer + k_done, {.event_bytes_max = max});
  CHECK(within.released == k_text);
  CHECK(within.code == errc::stream_interrupted);
  CHECK(within.message.find("more than") != std::string::npos);
  CHECK(run_whole(longer, {.event_bytes_max = max}).code == errc::upstream_failed);
  event_inspector inspector;
  event_stream stream({.event_bytes_max = max}, inspector);
  CHECK(stream.push(std::string(max, 'x')) == state::hold);
  CHECK(stream.push("x") == state::failed);  // without waiting for its end
  CHECK(stream.push(k_text) == state::failed);
  CHECK(stream.end() == state::failed);
}

TEST_CASE("an idle stream gives its buffer back") {
  event_inspector inspector;
  event_stream stream({}, inspector);
  const std::string large = "data: {\"choices\":[{\"text\":\"" + std::string(100'000, 'x') + "\"}]}\n\n";
  CHECK(stream.push(large) == state::release);
  CHECK(stream.held_bytes() >= large.size());
  CHECK(stream.push({}) == state::hold);
  CHECK(stream.held_bytes() <= 4096);
  CHECK(stream.push(large.substr(0, 50'000)) == state::hold);
  CHECK(stream.held_bytes() >= 50'000);
}

}  // namespace weir::gateway::relay
