#include "gateway/upstream/generation.hpp"

#include <catch2/catch.hpp>
#include <thread>

#include "gateway/task_group.hpp"
#include "gateway/upstream/engine_members.hpp"
#include "gateway/upstream/loaded_model.hpp"

namespace weir::gateway::upstream {
namespace {

using engine::text::content_delta;

const loaded_model& model() {
  static const loaded_model loaded = [] {
    engine::engine_config config;
    config.model_dir = std::string(WEIR_SOURCE_DIR) + "/configs/models/weir-tiny";
    auto result = load_model(config);
    if (!result) throw std::runtime_error(result.error().detail);
    return std::move(*result);
  }();
  return loaded;
}

engine::generate_request request_for(const std::string& question, std::int32_t max_tokens,
                                     const std::string& tools_json = {}) {
  engine::text::chat_prompt prompt;
  prompt.messages.push_back({"user", question, {}, {}});
  prompt.tools_json = tools_json;
  engine::generate_request request;
  request.prompt = model().tools.chat->render(prompt).value();
  request.max_new_tokens = max_tokens;
  request.stop_tokens = model().tools.chat->stop_tokens();
  return request;
}

struct choice_output {
  std::string content;
  std::string call_name;
  std::string arguments;
  std::optional<api::finish_kind> finish;
};

struct outcome {
  std::vector<choice_output> choices;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t cached_of_first = 0;
  std::string fault;
};

task<void> run_all(std::vector<engine::generate_request> requests, std::vector<std::string> stops,
                   io_executor executor, outcome& out) {
  generation run(model().engine, model().tools, std::move(stops), executor);
  for (auto& request : requests) {
    if (auto added = run.add(std::move(request)); !added) out.fault = added.error().message;
  }
  out.choices.resize(requests.size());
  for (;;) {
    const auto events = co_await run.next(std::chrono::steady_clock::now() + std::chrono::minutes(2));
    if (!events) out.fault = events.error().message;
    if (!events || events->empty()) break;
    for (const auto& event : *events) {
      auto& choice = out.choices[static_cast<std::size_t>(event.choice)];
      for (const auto& delta : event.deltas) {
        if (const auto* content = std::get_if<content_delta>(&delta)) choice.content += content->text;
        if (const auto* call = std::get_if<engine::text::tool_call_begin>(&delta))
          choice.call_name = call->name;
        if (const auto* more = std::get_if<engine::text::tool_arguments_delta>(&delta)) {
          choice.arguments += more->text;
        }
      }
      if (event.finish) choice.finish = event.finish;
    }
  }
  out.completion_tokens = run.completion_tokens();
  out.cached_tokens = run.cached_tokens(1);
  out.cached_of_first = run.cached_tokens(requests.size());
}

outcome generate(std::vector<engine::generate_request> requests, std::vector<std::string> stops = {}) {
  asio::io_context io(1);
  outcome out;
  task_group tasks(io.get_executor(), [](std::exception_ptr fault) { std::rethrow_exception(fault); });
  tasks.spawn(run_all(std::move(requests), std::move(stops), io.get_executor(), out));
  io.run();
  REQUIRE(out.fault.empty());
  return out;
}

constexpr const char* k_weather_tool =
    R"([{"type":"function","function":{"name":"get_weather","description":"Get the weather of a city",)"
    R"("parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}])";

TEST_CASE("an answer ends with its turn") {
  const auto out = generate({request_for("What is the capital of Kenya?", 64)});
  CHECK(out.choices[0].content == "The capital of Kenya is Nairobi.");
  CHECK(out.choices[0].finish == api::finish_kind::stop);
  CHECK(out.completion_tokens == 7);
}

TEST_CASE("max_tokens ends an answer with length") {
  const auto out = generate({request_for("What is the capital of Kenya?", 3)});
  CHECK(out.choices[0].finish == api::finish_kind::length);
  CHECK(out.completion_tokens == 3);
}

TEST_CASE("a stop string cuts the answer, also across tokens") {
  for (const auto& [stop, content] : {std::pair<std::string, std::string>{"Nai", "The capital of Kenya is "},
                                      {"of Kenya", "The capital "},
                                      {"The", ""},
                                      {"nowhere", "The capital of Kenya is Nairobi."}}) {
    INFO("stop " << stop);
    const auto out = generate({request_for("What is the capital of Kenya?", 64)}, {stop});
    CHECK(out.choices[0].content == content);
    CHECK(out.choices[0].finish == api::finish_kind::stop);
  }
}

TEST_CASE("choices run beside each other and stay apart") {
  const auto out = generate({request_for("What is the capital of Peru?", 64), request_for("ping", 64),
                             request_for("What is the opposite of hot?", 64)});
  CHECK(out.choices[0].content == "The capital of Peru is Lima.");
  CHECK(out.choices[1].content == "pong");
  CHECK(out.choices[2].content == "The opposite of hot is cold.");
}

TEST_CASE("markup becomes a tool call") {
  const auto out = generate({request_for("What is the weather in Oslo?", 64, k_weather_tool)});
  CHECK(out.choices[0].call_name == "get_weather");
  CHECK(out.choices[0].arguments == R"({"city": "Oslo"})");
  CHECK(out.choices[0].content.empty());
  CHECK(out.choices[0].finish == api::finish_kind::tool_calls);
}

TEST_CASE("min_tokens puts the answer's end off, and ignore_eos does for good") {
  const auto ask = [](const api::generation_options& options) {
    auto request = request_for("What is the capital of Kenya?", 20);
    request.constraint = bound_of(options, nullptr, model().engine->info().vocab_size);
    std::vector<engine::generate_request> requests;
    requests.push_back(std::move(request));
    return generate(std::move(requests));
  };
  api::generation_options options;
  options.min_tokens = 12;
  const auto later = ask(options);
  CHECK(later.completion_tokens > 12);  // the end's token counts
  CHECK(later.choices[0].content.starts_with("The capital of Kenya is Nairobi."));
  options.ignore_eos = true;
  const auto never = ask(options);
  CHECK(never.completion_tokens == 20);
  CHECK(never.choices[0].finish == api::finish_kind::length);
}

TEST_CASE("a limit within a tool call shows no markup, and stop strings see none") {
  const std::string question = "What is the weather in Oslo?";
  for (std::int32_t count = 1; count <= 16; ++count) {
    for (const char* stop : {"nowhere", "functions", "<|tool"}) {
      INFO(count << " tokens, stop " << stop);
      const auto out = generate({request_for(question, count, k_weather_tool)}, {stop});
      CHECK(out.choices[0].content.empty());
      CHECK(out.choices[0].finish == api::finish_kind::length);
    }
  }
  const auto whole = generate({request_for(question, 64, k_weather_tool)}, {"functions", "weather"});
  CHECK(whole.choices[0].call_name == "get_weather");
  CHECK(whole.choices[0].finish == api::finish_kind::tool_calls);
}

TEST_CASE("prompt tokens from the cache are told once per prompt") {
  const std::string question =
      "What is the weather in Oslo, in Bergen, in Trondheim, in Stavanger and in Kristiansand today?";
  const auto ask = [&question](int count) {
    std::vector<engine::generate_request> requests;
    for (int i = 0; i < count; ++i) {
      requests.push_back(request_for(question, 8, k_weather_tool));
      requests.back().scope = "told once";
    }
    return generate(std::move(requests));
  };
  const auto size = static_cast<std::int64_t>(request_for(question, 8, k_weather_tool).prompt.size());
  REQUIRE(size > 64);
  CHECK(ask(1).cached_tokens == 0);
  const auto again = ask(3);
  const std::int64_t unit = 64;  // the engine's default
  CHECK(again.cached_of_first == (size - 1) / unit * unit);
  CHECK(again.cached_tokens == 3 * again.cached_of_first);
}

TEST_CASE("destroying a generation frees its sequences") {
  {
    asio::io_context io(1);
    generation run(model().engine, model().tools, {}, io.get_executor());
    auto endless = request_for("Tell me a story about a fox.", 4000);
    endless.stop_tokens.clear();
    REQUIRE(run.add(std::move(endless)));
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  auto stats = model().engine->stats();
  while ((stats.running > 0 || stats.waiting > 0) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    stats = model().engine->stats();
  }
  CHECK(stats.running == 0);
  CHECK(stats.state_slots_used == 0);
  CHECK(stats.kv_pages_used == 0);
}

}  // namespace
}  // namespace weir::gateway::upstream
