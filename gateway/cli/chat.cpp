#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <iostream>

#include "gateway/cli/commands.hpp"
#include "gateway/task_group.hpp"
#include "gateway/upstream/generation.hpp"

namespace weir::gateway::cli {

namespace {

constexpr std::chrono::minutes k_token_timeout{5};

struct chat_options {
  std::string prompt;
  std::filesystem::path model_dir;
  std::string system;
  std::int64_t max_tokens = 512;
  std::optional<float> temperature;
  std::uint64_t seed = 0;
  bool reference = false;
};

using upstream::loaded_model;

void print_deltas(const api::choice_event& event, std::string& answer) {
  for (const auto& delta : event.deltas) {
    if (const auto* content = std::get_if<engine::text::content_delta>(&delta)) {
      answer += content->text;
      std::fwrite(content->text.data(), 1, content->text.size(), stdout);
    } else if (const auto* reasoning = std::get_if<engine::text::reasoning_delta>(&delta)) {
      std::fwrite(reasoning->text.data(), 1, reasoning->text.size(), stdout);
    } else if (const auto* call = std::get_if<engine::text::tool_call_begin>(&delta)) {
      std::printf("[calls %s with ", call->name.c_str());
    } else if (const auto* arguments = std::get_if<engine::text::tool_arguments_delta>(&delta)) {
      std::fwrite(arguments->text.data(), 1, arguments->text.size(), stdout);
    }
  }
  std::fflush(stdout);
}

task<void> answer(const loaded_model& model, engine::generate_request request, io_executor executor,
                  std::string& text, std::string& fault) {
  upstream::generation run(model.engine, model.tools, {}, executor);
  if (auto added = run.add(std::move(request)); !added) {
    fault = added.error().message;
    co_return;
  }
  for (;;) {
    const auto events = co_await run.next(std::chrono::steady_clock::now() + k_token_timeout);
    if (!events) fault = events.error().message;
    if (!events || events->empty()) break;
    for (const auto& event : *events) print_deltas(event, text);
  }
  std::printf("\n");
}

// One turn: appends the answer to the conversation. Returns false with the reason printed.
bool take_turn(const loaded_model& model, const chat_options& options,
               engine::text::chat_prompt& conversation) {
  auto ids = model.tools.chat->render(conversation);
  if (!ids) {
    std::fprintf(stderr, "weir chat: %s\n", ids.error().detail.c_str());
    return false;
  }
  const std::int64_t left = model.engine->info().context_tokens - static_cast<std::int64_t>(ids->size());
  engine::generate_request request;
  request.prompt = std::move(*ids);
  request.max_new_tokens =
      static_cast<std::int32_t>(std::max<std::int64_t>(1, std::min(options.max_tokens, left)));
  request.sampling.temperature = options.temperature.value_or(model.defaults.temperature);
  request.sampling.top_p = model.defaults.top_p;
  request.sampling.top_k = model.defaults.top_k;
  request.sampling.seed = options.seed;
  request.stop_tokens = model.tools.chat->stop_tokens();
  std::string text;
  std::string fault;
  asio::io_context io(1);
  task_group tasks(io.get_executor(), [&](std::exception_ptr) { fault = "internal fault"; });
  tasks.spawn(answer(model, std::move(request), io.get_executor(), text, fault));
  io.run();
  if (!fault.empty()) std::fprintf(stderr, "weir chat: %s\n", fault.c_str());
  conversation.messages.push_back({"assistant", std::move(text), {}, {}});
  return fault.empty();
}

int chat(const chat_options& options) {
  if (options.model_dir.empty()) {
    std::fprintf(stderr, "weir chat: the bundled model was not found; name one with --model DIR\n");
    return k_bad_config;
  }
  engine::engine_config config;
  config.model_dir = options.model_dir;
  if (options.reference) config.backend = engine::backend_kind::reference;
  config.on_fault = [](const std::string& what) { std::fprintf(stderr, "weir chat: %s\n", what.c_str()); };
  const auto model = upstream::load_model(config);
  if (!model) {
    std::fprintf(stderr, "weir chat: %s: %s\n", options.model_dir.c_str(), model.error().detail.c_str());
    return k_failed;
  }
  engine::text::chat_prompt conversation;
  if (!options.system.empty()) conversation.messages.push_back({"system", options.system, {}, {}});
  if (!options.prompt.empty()) {
    conversation.messages.push_back({"user", options.prompt, {}, {}});
    return take_turn(*model, options, conversation) ? k_ok : k_failed;
  }
  const bool terminal = ::isatty(STDIN_FILENO) != 0;
  std::string line;
  while ((terminal && (std::fputs("> ", stderr), true), std::getline(std::cin, line))) {
    if (line.empty()) continue;
    conversation.messages.push_back({"user", line, {}, {}});
    if (!take_turn(*model, options, conversation)) return k_failed;
  }
  return k_ok;
}

}  // namespace

void add_chat(CLI::App& app, command& chosen) {
  auto options = std::make_shared<chat_options>();
  options->model_dir = find_bundled_model();
  auto* chat_command = app.add_subcommand("chat", "Talk to a model in the terminal, without a server");
  chat_command->add_option("prompt", options->prompt,
                           "One question; without it a conversation, one line a turn");
  chat_command->add_option("-m,--model", options->model_dir,
                           "Checkpoint folder; default: the bundled weir-tiny");
  chat_command->add_option("--system", options->system, "System message");
  chat_command->add_option("--max-tokens", options->max_tokens, "Longest answer")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->capture_default_str();
  chat_command->add_option("--temperature", options->temperature, "0 is greedy; default: the model's own")
      ->check(CLI::Range(0.0, 2.0));
  chat_command->add_option("--seed", options->seed, "Seed of the sampling")->capture_default_str();
  chat_command->add_flag("--reference", options->reference, "Use the scalar double-precision backend");
  chat_command->callback([options, &chosen] { chosen = [options] { return chat(*options); }; });
}

std::filesystem::path find_bundled_model() {
  std::error_code ec;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();
  for (const auto& base :
       {program / ".." / "..", program / ".." / "share" / "weir", std::filesystem::path(".")}) {
    auto model = (base / "configs" / "models" / "weir-tiny").lexically_normal();
    if (std::filesystem::exists(model / "config.json", ec)) return model;
  }
  return {};
}

}  // namespace weir::gateway::cli
