// Streams and answers of Anthropic's messages API: what opens them, what is content, how they end, what they
// used.
#include <catch2/catch.hpp>
#include <string>

#include "gateway/relay/event_stream.hpp"

namespace weir::gateway::relay {
namespace {

std::string event(const std::string& type, const std::string& rest = {}) {
  return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + rest + "}\n\n";
}

const std::string k_start = event(
    "message_start",
    R"(,"message":{"usage":{"input_tokens":5,"cache_read_input_tokens":30,"cache_creation_input_tokens":7,)"
    R"("output_tokens":1}})");
const std::string k_open = event("content_block_start", R"(,"content_block":{"type":"text","text":""})");
const std::string k_delta = event("content_block_delta", R"(,"delta":{"type":"text_delta","text":"hi"})");
const std::string k_close = event("content_block_stop", R"(,"index":0)");
const std::string k_end =
    event("message_delta", R"(,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4})");
const std::string k_stop = event("message_stop");
const std::string k_ping = event("ping");
const std::string k_error = event("error", R"(,"error":{"type":"overloaded_error","message":"Overloaded"})");

constexpr event_stream::options k_messages{.shape = event_shape::messages};

}  // namespace

TEST_CASE("kinds of the messages API's events") {
  event_inspector inspector;
  const struct {
    std::string bytes;
    event_kind what;
    int shown;
  } rows[] = {
      {k_start, event_kind::preamble, 0},
      {k_open, event_kind::preamble, 0},
      {event("content_block_start", R"(,"content_block":{"type":"thinking","thinking":"","signature":""})"),
       event_kind::preamble, 0},
      {event("content_block_start", R"(,"content_block":{"type":"tool_use","name":"add","input":{}})"),
       event_kind::content, 1},
      {event("content_block_start", R"(,"content_block":{"type":"redacted_thinking","data":"x"})"),
       event_kind::content, 1},
      {k_delta, event_kind::content, 1},
      {k_close, event_kind::preamble, 0},
      {k_end, event_kind::content, 0},
      {k_stop, event_kind::last, 0},
      {k_ping, event_kind::comment, 0},
      {k_error, event_kind::error, 0},
      {event("something_new"), event_kind::preamble, 0},
      {"data: 7\n\n", event_kind::nonsense, 0},
  };
  for (const auto& r : rows) {
    INFO(r.bytes);
    const auto facts = inspector.inspect(r.bytes, event_shape::messages);
    CHECK(facts.what == r.what);
    CHECK(facts.shown_choices == r.shown);
  }
  CHECK(inspector.inspect(k_error, event_shape::messages).error_type == "overloaded_error");
}

TEST_CASE("a messages stream is held up to its first content, and its counts add up, cut anywhere") {
  const std::string whole = k_start + k_ping + k_open + k_delta + k_delta + k_close + k_end + k_stop;
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    event_inspector inspector;
    event_stream stream(k_messages, inspector);
    std::string out;
    for (const auto& part : {whole.substr(0, cut), whole.substr(cut)}) {
      if (stream.push(part) == event_stream::state::release) out += stream.released();
    }
    CHECK(out == whole);
    CHECK(stream.complete());
    CHECK(stream.usage().prompt_tokens == 42);
    CHECK(stream.usage().cached_tokens == 30);
    CHECK(stream.usage().cache_write_tokens == 7);
    CHECK(stream.usage().completion_tokens == 4);
    CHECK(stream.shown() == 2);
  }
}

TEST_CASE(
    "a messages stream that is cut is charged what was shown, and what its beginning told of the prompt") {
  event_inspector inspector;
  event_stream stream(k_messages, inspector);
  stream.push(k_start + k_open + k_delta + k_delta + k_delta);
  CHECK(stream.usage().prompt_tokens == 42);
  CHECK(stream.usage().completion_tokens == 3);
}

TEST_CASE("later counts of a messages stream replace those that they name, and no others") {
  event_inspector inspector;
  event_stream stream(k_messages, inspector);
  const auto later = event("message_delta", R"(,"delta":{},"usage":{"input_tokens":6,"output_tokens":9})");
  stream.push(k_start + k_open + k_delta + later + k_stop);
  CHECK(stream.usage().prompt_tokens == 43);
  CHECK(stream.usage().cached_tokens == 30);
  CHECK(stream.usage().completion_tokens == 9);
}

TEST_CASE("how a messages stream may end") {
  const struct {
    const char* name;
    std::string bytes;
    bool fails;
    bool started;
  } rows[] = {
      {"stopped", k_start + k_open + k_delta + k_end + k_stop, false, true},
      {"no block at all", k_start + k_end + k_stop, false, true},
      {"an error first", k_start + k_error, true, false},
      {"an error behind content", k_start + k_delta + k_error, true, true},
      {"without message_stop", k_start + k_delta + k_end, true, true},
      {"pings alone", k_start + k_ping + k_ping, true, false},
      {"more behind the end", k_delta + k_stop + k_delta, true, true},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    event_inspector inspector;
    event_stream stream(k_messages, inspector);
    stream.push(r.bytes);
    stream.end();
    CHECK(stream.failed() == r.fails);
    CHECK(stream.started() == r.started);
  }
}

TEST_CASE("what a whole message used") {
  event_inspector inspector;
  const auto told = inspector.inspect_reply(
      R"({"type":"message","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":5,)"
      R"("cache_read_input_tokens":30,"cache_creation_input_tokens":7,"output_tokens":4}})",
      event_shape::messages);
  REQUIRE(told);
  CHECK(told->usage.prompt_tokens == 42);
  CHECK(told->usage.completion_tokens == 4);
  CHECK_FALSE(told->error);
  const auto silent = inspector.inspect_reply(
      R"({"type":"message","content":[{"type":"text","text":"hello"}]})", event_shape::messages);
  REQUIRE(silent);
  CHECK(silent->content_bytes >= 5);
  const auto failed = inspector.inspect_reply(
      R"({"type":"error","error":{"type":"api_error","message":"boom"}})", event_shape::messages);
  REQUIRE(failed);
  REQUIRE(failed->error);
  CHECK(failed->error->error_message == "boom");
}

}  // namespace weir::gateway::relay
