// Kimi-K3's answers on their way from the engine's tokens to choice events, the engine being a script.
#include <catch2/catch.hpp>

#include "gateway/task_group.hpp"
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
  return {*tokenizer, *chat, nullptr, thinking};
}

// Every sequence gets the same tokens and then the stop token.
class scripted_engine final : public engine::engine {
 public:
  explicit scripted_engine(std::vector<std::int32_t> tokens) : tokens_(std::move(tokens)) {}

  const weir::engine::model_info& info() const noexcept override { return info_; }
  weir::engine::result<weir::engine::sequence_id> submit(
      weir::engine::generate_request, std::shared_ptr<weir::engine::event_sink> sink) override {
    for (const std::int32_t token : tokens_) sink->on_token({token, 0.0F, {}});
    sink->on_finished(weir::engine::finish_reason::stop);
    return weir::engine::sequence_id{1};
  }
  void cancel(weir::engine::sequence_id) noexcept override {}
  weir::engine::engine_stats stats() const noexcept override { return {}; }
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
};

task<void> run_script(const text_tools& tools, std::string markup, std::vector<std::string> stops,
                      io_executor executor, outcome& out) {
  auto script =
      std::make_shared<scripted_engine>(engine::text::encoded_with_specials(*tools.tokenizer, markup));
  generation run(script, tools, std::move(stops), executor);
  if (!run.add({})) throw std::runtime_error("refused");
  for (;;) {
    const auto events = co_await run.next(std::chrono::steady_clock::now() + std::chrono::minutes(2));
    if (!events) throw std::runtime_error(events.error().message);
    if (events->empty()) break;
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

outcome answer(const std::string& markup, bool thinking, std::vector<std::string> stops = {}) {
  asio::io_context io(1);
  outcome out;
  const text_tools tools = k3_tools(thinking);
  task_group tasks(io.get_executor(), [](std::exception_ptr fault) { std::rethrow_exception(fault); });
  tasks.spawn(run_script(tools, markup, std::move(stops), io.get_executor(), out));
  io.run();
  return out;
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

}  // namespace weir::gateway::upstream
