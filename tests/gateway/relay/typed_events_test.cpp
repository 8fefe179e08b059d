// Streams of the responses API: what opens them, what is content, how they end.
#include <catch2/catch.hpp>
#include <string>

#include "gateway/relay/event_stream.hpp"

namespace weir::gateway::relay {
namespace {

std::string event(const std::string& type, const std::string& rest = {}) {
  return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + rest + "}\n\n";
}

const std::string k_created = event("response.created", R"(,"response":{"usage":null})");
const std::string k_item = event("response.output_item.added", R"(,"item":{"type":"message"})");
const std::string k_delta = event("response.output_text.delta", R"(,"delta":"hi")");
const std::string k_usage = R"(,"response":{"usage":{"input_tokens":9,"output_tokens":2,)"
                            R"("input_tokens_details":{"cached_tokens":8}}})";
const std::string k_completed = event("response.completed", k_usage);
const std::string k_failed =
    event("response.failed", R"(,"response":{"error":{"code":"server_error","message":"boom"}})");

constexpr event_stream::options k_typed{.shape = event_shape::responses};

}  // namespace

TEST_CASE("kinds of the responses API's events") {
  event_inspector inspector;
  const struct {
    std::string bytes;
    event_kind what;
    const char* message;
  } rows[] = {
      {k_created, event_kind::preamble, ""},
      {event("response.in_progress"), event_kind::preamble, ""},
      {k_item, event_kind::preamble, ""},
      {k_delta, event_kind::content, ""},
      {event("response.output_item.done"), event_kind::content, ""},
      {event("response.some.thing.new"), event_kind::content, ""},
      {k_completed, event_kind::last, ""},
      {event("response.incomplete"), event_kind::last, ""},
      {k_failed, event_kind::error, "boom"},
      {event("response.failed"), event_kind::error, ""},
      {event("error", R"(,"message":"boom")"), event_kind::error, "boom"},
      {event("error", R"(,"error":{"message":"boom"})"), event_kind::error, "boom"},
      {"data: {\"error\":{\"message\":\"boom\"}}\n\n", event_kind::error, "boom"},
      {"data: [DONE]\n\n", event_kind::done, ""},
      {"data: oops\n\n", event_kind::nonsense, ""},
      {": ping\n\n", event_kind::comment, ""},
  };
  for (const auto& r : rows) {
    INFO(r.bytes);
    const auto facts = inspector.inspect(r.bytes, event_shape::responses);
    CHECK(facts.what == r.what);
    CHECK(facts.error_message == r.message);
  }
}

TEST_CASE("a responses stream is held up to its first content and ends with its last event, cut anywhere") {
  const std::string whole = k_created + k_item + k_delta + k_delta + k_completed;
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    event_inspector inspector;
    event_stream stream(k_typed, inspector);
    std::string out;
    for (const auto& part : {whole.substr(0, cut), whole.substr(cut)}) {
      if (stream.push(part) == event_stream::state::release) out += stream.released();
    }
    CHECK(out == whole);
    CHECK(stream.complete());
    CHECK(stream.usage().prompt_tokens == 9);
    CHECK(stream.usage().cached_tokens == 8);
    CHECK(stream.usage().completion_tokens == 2);
    CHECK(stream.shown() == 2);
  }
}

TEST_CASE("how a responses stream may end") {
  const struct {
    const char* name;
    std::string bytes;
    bool fails;
    bool started;
  } rows[] = {
      {"completed", k_created + k_completed, false, true},
      {"completed and [DONE]", k_delta + k_completed + "data: [DONE]\n\n", false, true},
      {"an error first", k_created + k_failed, true, false},
      {"an error behind content", k_delta + k_failed, true, true},
      {"no last event", k_created + k_delta, true, true},
      {"nothing but [DONE]", "data: [DONE]\n\n", true, false},
      {"more behind the end", k_completed + k_delta, true, true},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    event_inspector inspector;
    event_stream stream(k_typed, inspector);
    stream.push(r.bytes);
    stream.end();
    CHECK(stream.failed() == r.fails);
    CHECK(stream.started() == r.started);
  }
}

}  // namespace weir::gateway::relay
