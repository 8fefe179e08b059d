// Kimi-K3's answers on their way from the engine's tokens to choice events, the engine being a script.
#include <catch2/catch.hpp>

#include <boost/asio/executor_work_guard.hpp>

#include "gateway/api/chat_types.hpp"
#include "gateway/task_group.hpp"
#include "gateway/upstream/answer_constraints.hpp"
#include "gateway/upstream/generation.hpp"
#include "tests/engine/text/support.hpp"

namespace weir::gateway::upstream {
namespace {

text_tools k3_tools(bool thinking) {
  const auto tokenizer = engine::text::make_tokenizer(
      engine::text::rank_file(),
      R"({"added_tokens_decoder":{"256":{"content":"<|end_of_msg|>"},"257":{"content":"<|open|>"},)"
      R"("258":{"content":"<|close|>"},"259":{"content":"<|sep|>"}}})");
  REQUIRE(tokenizer);
  const auto chat = engine::text::chat_format::detect(*tokenizer);
  REQUIRE(chat);
  const auto words = engine::structure::vocabulary::build(*tokenizer);
  REQUIRE(words);
  return {*tokenizer, *chat, *words, thinking};
}

// Every sequence gets the same tokens and then the stop token, as far as its constraint lets them pass.
class scripted_engine final : public engine::engine {
 public:
  explicit scripted_engine(std::vector<std::int32_t> tokens) : tokens_(std::move(tokens)) {}

  const weir::engine::model_info& info() const noexcept override { return info_; }
  weir::engine::result<weir::engine::sequence_id> submit(
      weir::engine::generate_request request, std::shared_ptr<weir::engine::event_sink> sink) override {
    const auto matcher = request.constraint ? request.constraint->start() : nullptr;
    bool follows = true;
    for (const std::int32_t token : tokens_) {
      follows = follows && (matcher == nullptr || matcher->accept(token));
      if (follows) sink->on_token({token, 0.0F, {}});
    }
    follows = follows && (matcher == nullptr || matcher->must_end());
    using weir::engine::finish_reason;
    sink->on_finished(follows ? finish_reason::stop : finish_reason::failed);
    return weir::engine::sequence_id{1};
  }
  void cancel(weir::engine::sequence_id) noexcept override {}
  weir::engine::engine_stats stats() const noexcept override { return {}; }
  weir::engine::monitor::engine_activity activity() const override { return {}; }
  void stop() noexcept override {}

 private:
  std::vector<std::int32_t> tokens_;
  weir::engine::model_info info_;
};

struct outcome {
  std::string reasoning;
  std::string content;
  std::string call;
  std::optional<api::finish_kind> finish;
  bool failed = false;
};

task<void> run_script(const text_tools& tools, std::string markup, std::vector<std::string> stops,
                      std::shared_ptr<const weir::engine::token_constraint> bound, io_executor executor,
                      outcome& out) {
  auto script =
      std::make_shared<scripted_engine>(engine::text::encoded_with_specials(*tools.tokenizer, markup));
  generation run(script, tools, std::move(stops), executor);
  weir::engine::generate_request request;
  request.constraint = std::move(bound);
  if (!run.add(std::move(request))) throw std::runtime_error("refused");
  for (;;) {
    const auto events = co_await run.next(std::chrono::steady_clock::now() + std::chrono::minutes(2));
    out.failed = !events;
    if (!events || events->empty()) break;
    for (const auto& event : *events) {
      for (const auto& delta : event.deltas) {
        if (const auto* text = std::get_if<engine::text::reasoning_delta>(&delta))
          out.reasoning += text->text;
        if (const auto* text = std::get_if<engine::text::content_delta>(&delta)) out.content += text->text;
        if (const auto* call = std::get_if<engine::text::tool_call_begin>(&delta))
          out.call += call->name + ":";
        if (const auto* more = std::get_if<engine::text::tool_arguments_delta>(&delta))
          out.call += more->text;
      }
      if (event.finish) out.finish = event.finish;
    }
  }
}

outcome answer(const std::string& markup, bool thinking, std::vector<std::string> stops = {},
               std::shared_ptr<const weir::engine::token_constraint> bound = nullptr) {
  asio::io_context io(1);
  outcome out;
  const text_tools tools = k3_tools(thinking);
  task_group tasks(io.get_executor(), [](std::exception_ptr fault) { std::rethrow_exception(fault); });
  tasks.spawn(run_script(tools, markup, std::move(stops), std::move(bound), io.get_executor(), out));
  io.run();
  return out;
}

// What the engine is given for a request of this body.
answer_constraints::outcome constraint_of(answer_constraints& constraints, const std::string& body) {
  const auto request = api::parse_chat_request(body);
  INFO((request ? std::string() : request.error().message));
  REQUIRE(request);
  asio::io_context io(1);
  asio::thread_pool pool(1);
  answer_constraints::outcome out;
  const auto ask = [&]() -> task<void> {
    out = co_await constraints.of(request->answer, request->prompt.thinking, pool);
  };
  task_group tasks(io.get_executor(), [](std::exception_ptr fault) { std::rethrow_exception(fault); });
  tasks.spawn(ask());
  const auto until_done = asio::make_work_guard(io);
  while (tasks.size() > 0) io.run_one();
  return out;
}

std::string body_of(const std::string& members) {
  return R"({"model":"k3","messages":[{"role":"user","content":"Hi"}],)" + members + "}";
}

const std::string k_thought = "Two stops.<|close|>think<|sep|>";
const std::string k_response = "<|open|>response<|sep|>Go on, stop.<|close|>response<|sep|>";
const std::string k_call =
    "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" "
    "type=\"string\"<|sep|>stop<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>";
const std::string k_end = "<|close|>message<|sep|>";

}  // namespace

TEST_CASE("thinking becomes reasoning, the response content, a call a call", "[k3]") {
  const outcome plain = answer(k_thought + k_response + k_end, true);
  CHECK(plain.reasoning == "Two stops.");
  CHECK(plain.content == "Go on, stop.");
  CHECK(plain.finish == api::finish_kind::stop);
  const outcome called = answer(k_thought + k_response + k_call + k_end, true);
  CHECK(called.reasoning == "Two stops.");
  CHECK(called.content == "Go on, stop.");
  CHECK(called.call == R"(f:{"a": "stop"})");
  CHECK(called.finish == api::finish_kind::tool_calls);
}

TEST_CASE("a prompt without thinking is answered in the response", "[k3]") {
  const outcome out = answer("Go on.<|close|>response<|sep|>" + k_end, false);
  CHECK(out.reasoning.empty());
  CHECK(out.content == "Go on.");
}

TEST_CASE("stop strings cut the response alone", "[k3]") {
  const outcome out = answer(k_thought + k_response + k_call + k_end, true, {"stop"});
  CHECK(out.reasoning == "Two stops.");
  CHECK(out.content == "Go on, ");
  CHECK(out.call.empty());
  CHECK(out.finish == api::finish_kind::stop);
}

TEST_CASE("response_format and forced tools bind what K3 answers", "[k3]") {
  answer_constraints constraints(k3_tools(true));
  CHECK(constraints.supported());  // what the target's view says of structured_output and forced_tools
  const std::string format =
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object",)"
      R"("properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}})";
  const std::string begin = k_thought + "<|open|>response<|sep|>", end = "<|close|>response<|sep|>" + k_end;
  const auto bound = constraint_of(constraints, body_of(format));
  REQUIRE(bound);
  REQUIRE(*bound);
  CHECK(*constraint_of(constraints, body_of(format)) == *bound);  // kept
  const outcome out = answer(begin + R"({"n": 12})" + end, true, {}, *bound);
  CHECK(out.reasoning == "Two stops.");
  CHECK(out.content == R"({"n": 12})");
  CHECK(out.finish == api::finish_kind::stop);
  CHECK(answer(begin + R"({"n": "12"})" + end, true, {}, *bound).failed);
  CHECK(answer(k_thought + k_response + k_end, true, {}, *bound).failed);

  const std::string off = R"(,"chat_template_kwargs":{"thinking":false})";
  const auto at_once = constraint_of(constraints, body_of(format + off));
  REQUIRE(at_once);
  CHECK(*at_once != *bound);
  CHECK(answer(R"({"n": 12})" + end, false, {}, *at_once).content == R"({"n": 12})");
  CHECK(answer(begin + R"({"n": 12})" + end, false, {}, *at_once).failed);

  const auto forced =
      constraint_of(constraints, body_of(R"("tools":[{"type":"function","function":{"name":"f"}}],)"
                                         R"("tool_choice":"required","parallel_tool_calls":false)"));
  REQUIRE(forced);
  const std::string calls = "<|close|>response<|sep|><|open|>tools<|sep|>";
  const std::string call =
      R"(<|open|>call tool="f" index="1"<|sep|><|open|>json type="object"<|sep|>{"a": [1]})"
      "<|close|>json<|sep|><|close|>call<|sep|>";
  const outcome called = answer(begin + calls + call + "<|close|>tools<|sep|>" + k_end, true, {}, *forced);
  CHECK(called.call == R"(f:{"a": [1]})");
  CHECK(called.finish == api::finish_kind::tool_calls);
  CHECK(answer(begin + "Hi." + end, true, {}, *forced).failed);
  CHECK(answer(begin + calls + call + call, true, {}, *forced).failed);
}

}  // namespace weir::gateway::upstream
