#include "gateway/upstream/engine_upstream.hpp"

#include <fmt/format.h>
#include <openssl/rand.h>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>

#include "gateway/api/chat_types.hpp"
#include "gateway/api/completion_types.hpp"
#include "gateway/api/logprobs_json.hpp"
#include "gateway/api/responses_writer.hpp"
#include "gateway/dialects/responses_to_chat.hpp"
#include "gateway/upstream/answer_constraints.hpp"
#include "gateway/upstream/engine_members.hpp"
#include "gateway/upstream/generation.hpp"
#include "gateway/upstream/offload.hpp"

namespace weir::gateway::upstream {

namespace {

// Longer prompts are tokenized away from the I/O thread, so that its other connections go on.
constexpr std::size_t k_inline_prompt_bytes_max = 64 << 10;
constexpr std::string_view k_event_stream = "text/event-stream; charset=utf-8";

std::size_t text_bytes(const engine::text::chat_prompt& prompt) {
  std::size_t bytes = prompt.tools_json.size();
  for (const auto& m : prompt.messages) {
    bytes += m.content.size();
    for (const auto& call : m.tool_calls) bytes += call.arguments.size() + call.id.size();
  }
  return bytes;
}

// Of the engine's own terms as well as of every refusal that says its status by its code.
policy::failover::ending ending_of(errc code) noexcept {
  using policy::failover::ending;
  if (code == errc::client_gone) return ending::client_gone;
  if (code == errc::unsupported) return ending::unsupported;
  return code == errc::deadline_exceeded ? ending::first_content_timeout : ending::status;
}

class engine_response final : public response {
 public:
  engine_response(std::unique_ptr<generation> run, std::unique_ptr<api::response_writer> writer,
                  std::int64_t prompt_tokens, const api::generation_options& options)
      : run_(std::move(run)),
        writer_(std::move(writer)),
        prompt_tokens_(prompt_tokens),
        choices_per_prompt_(static_cast<std::size_t>(options.n)) {
    const bool stream = options.stream;
    head_.events = stream;
    if (stream) head_.content_type = k_event_stream;
  }

  const reply_head& head() const noexcept override { return head_; }

  task<result<std::string_view>> next(time_point deadline) override {
    bytes_.clear();
    while (bytes_.empty() && !done_) {
      auto events = co_await run_->next(deadline);
      if (!events) {
        failed_ = events.error();
        co_return std::unexpected(events.error());
      }
      for (const auto& event : *events) bytes_ += writer_->write(event);
      if (!events->empty()) continue;
      bytes_ += writer_->finish(usage());
      done_ = true;
    }
    co_return std::string_view(bytes_);
  }

  std::string take_body() override { return std::exchange(bytes_, {}); }
  attempt_failure failure() const override { return to_failure(failed_); }

  bool complete() const noexcept override { return done_; }

  api::token_usage usage() const noexcept override {
    return {.prompt_tokens = prompt_tokens_,
            .completion_tokens = run_->completion_tokens(),
            .cached_tokens = run_->cached_tokens(choices_per_prompt_)};
  }

 private:
  std::unique_ptr<generation> run_;
  std::unique_ptr<api::response_writer> writer_;
  std::int64_t prompt_tokens_;
  std::size_t choices_per_prompt_;
  reply_head head_;
  std::string bytes_;
  error failed_;
  bool done_ = false;
};

api::writer_mode mode_of(const api::generation_options& options) {
  if (!options.stream) return api::writer_mode::body;
  return options.include_usage ? api::writer_mode::stream_with_usage : api::writer_mode::stream;
}

api::answer_identity make_identity(std::string_view prefix, std::string_view model) {
  static constexpr std::string_view k_alphabet =
      "abcdefghijklmnopqrstuvwxyz012345ABCDEFGHIJKLMNOPQRSTUVWXYZ6789-_";
  std::array<unsigned char, 24> random{};
  if (RAND_bytes(random.data(), random.size()) != 1)
    throw std::runtime_error("the system's random source failed");
  api::answer_identity out{.id = std::string(prefix)};
  for (const unsigned char byte : random) out.id += k_alphabet[byte & 63];
  out.model = model;
  out.created_s = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return out;
}

class embedded final : public engine_upstream {
 public:
  embedded(const engine_upstream_config& config, loaded_model model)
      : name_(config.name),
        choices_max_(std::int64_t{config.engine.sequences_max} + config.engine.queue_max),
        engine_(std::move(model.engine)),
        tools_(std::move(model.tools)),
        constraints_(tools_),
        defaults_(model.defaults) {
    for (std::int32_t id = 0; id < tools_.tokenizer->vocab_size(); ++id) {
      token_bytes_max_ = std::max(token_bytes_max_, tools_.tokenizer->token_bytes(id).size());
    }
  }

  std::string_view provider() const noexcept override { return "weir"; }

  policy::target_view view() const noexcept override {
    return {.name = name_,
            .kind = policy::target_kind::engine,
            .context_tokens = engine_->info().context_tokens,
            .ready = !stopped_ && engine_->serves(),
            .endpoints = policy::set_of(policy::endpoint::chat) |
                         policy::set_of(policy::endpoint::completions) |
                         policy::set_of(policy::endpoint::responses),
            .structured_output = constraints_.supported(),
            .forced_tools = constraints_.supported()};
  }
  engine::engine_stats stats() const noexcept override { return engine_->stats(); }
  engine::monitor::engine_activity activity() const override { return engine_->activity(); }
  const engine::model_info& model() const noexcept override { return engine_->info(); }
  const text_tools& tools() const noexcept override { return tools_; }
  std::string fault() const override { return engine_->fault(); }
  void stop() noexcept override {
    stopped_ = true;
    engine_->stop();
  }

  task<started> start(dispatch request) override {
    bool* const sent = request.sent;
    auto begun = co_await begin(std::move(request));
    if (!begun) co_return std::unexpected(to_failure(std::move(begun.error())));
    if (sent != nullptr) *sent = true;
    co_return std::move(*begun);
  }

 private:
  task<result<std::unique_ptr<response>>> begin(dispatch request) {
    engine_members terms = read_engine_members(request.members);
    // Whoever does not say whose prefixes it may share shares none.
    if (!terms.scope) terms.scope = fmt::format("request {}", request.request_id);
    auto identity = make_identity(request.id_prefix, request.call->model);
    if (request.call->kind == api::generation_kind::chat) {
      co_return co_await start_chat(request.call->body, request.output_tokens_max, std::move(terms),
                                    std::move(identity), std::nullopt);
    }
    if (request.call->kind == api::generation_kind::responses) {
      auto chat = dialects::responses_to_chat(request.call->body);
      if (!chat) co_return std::unexpected(chat.error());
      auto begun = co_await start_chat(chat->body, request.output_tokens_max, std::move(terms),
                                       std::move(identity), chat->echo);
      if (!begun) co_return std::unexpected(dialects::as_responses_error(std::move(begun.error())));
      co_return begun;
    }
    auto parsed = api::parse_completion_request(request.call->body);
    if (!parsed) co_return std::unexpected(parsed.error());
    auto typed = std::make_shared<const api::completion_request>(std::move(*parsed));
    co_return co_await start_completion(std::move(typed), std::move(terms), std::move(identity));
  }

  struct prepared_prompt {
    std::vector<std::int32_t> ids;
    std::string text;
    engine_members terms;
  };
  using launched = std::pair<std::unique_ptr<generation>, std::int64_t>;

  // With an echo it is the responses API that was asked.
  task<result<std::unique_ptr<response>>> start_chat(const std::string& body, std::int64_t output_tokens_max,
                                                     engine_members terms, api::answer_identity identity,
                                                     std::optional<std::string> echo) {
    auto parsed = api::parse_chat_request(body);
    if (!parsed) co_return std::unexpected(parsed.error());
    parsed->options.max_tokens_unasked = output_tokens_max;
    const auto request = std::make_shared<const api::chat_request>(std::move(*parsed));
    const std::size_t bytes = text_bytes(request->prompt);
    if (auto fits = check_bytes(bytes, "messages"); !fits) co_return std::unexpected(fits.error());
    const auto chat = tools_.chat;
    auto render = [request, chat] { return chat->render(request->prompt); };
    engine::result<std::vector<std::int32_t>> ids;
    if (bytes > k_inline_prompt_bytes_max) {
      ids = co_await offload(pool_, std::move(render));
    } else {
      ids = render();
    }
    if (!ids) co_return std::unexpected(to_gateway_error(ids.error()));
    const auto bound = co_await constraints_.of(request->answer, request->prompt.thinking, pool_);
    if (!bound) co_return std::unexpected(bound.error());
    std::vector<prepared_prompt> prompts;
    prompts.push_back({std::move(*ids), {}, std::move(terms)});
    const auto executor = co_await asio::this_coro::executor;
    text_tools tools = tools_;
    tools.thinking = request->prompt.thinking;
    auto run = launch(request->options, std::move(prompts), "messages", std::move(tools), executor, *bound);
    if (!run) co_return std::unexpected(run.error());
    const int choices = run->first->choice_count();
    auto writer =
        echo ? api::make_responses_writer(std::move(identity), std::move(*echo), request->options.stream)
             : api::make_chat_writer(std::move(identity), choices, mode_of(request->options));
    co_return std::make_unique<engine_response>(std::move(run->first), std::move(writer), run->second,
                                                request->options);
  }

  task<result<std::unique_ptr<response>>> start_completion(
      std::shared_ptr<const api::completion_request> request, engine_members terms,
      api::answer_identity identity) {
    std::vector<prepared_prompt> prompts;
    for (const auto& prompt : request->prompts) {
      auto prepared = co_await prepare(request, prompt);
      if (!prepared) co_return std::unexpected(prepared.error());
      prepared->terms = terms;
      prompts.push_back(std::move(*prepared));
    }
    std::vector<std::string> echoes;
    for (const auto& prompt : prompts) {
      for (std::int64_t i = 0; request->echo && i < request->options.n; ++i) echoes.push_back(prompt.text);
    }
    const auto executor = co_await asio::this_coro::executor;
    auto run = launch(request->options, std::move(prompts), "prompt", {tools_.tokenizer, nullptr}, executor);
    if (!run) co_return std::unexpected(run.error());
    auto writer = api::make_completion_writer(std::move(identity), run->first->choice_count(),
                                              mode_of(request->options), std::move(echoes));
    co_return std::make_unique<engine_response>(std::move(run->first), std::move(writer), run->second,
                                                request->options);
  }

  // A text that cannot fit whatever its tokens are is refused before any work.
  result<void> check_bytes(std::size_t bytes, std::string_view param) const {
    const auto context = static_cast<std::size_t>(engine_->info().context_tokens);
    if (bytes / token_bytes_max_ < context) return {};
    return fail(
        errc::context_length,
        fmt::format(
            "This model's maximum context length is {} tokens. However, your {} hold {} bytes of text, "
            "which is more than that many tokens. Please reduce the length of the {}.",
            context, param, bytes, param),
        std::string(param));
  }

  // A completions prompt belongs to its caller as a whole, so special tokens in it are the caller's to write.
  task<result<prepared_prompt>> prepare(std::shared_ptr<const api::completion_request> request,
                                        const api::completion_prompt& prompt) {
    prepared_prompt out;
    if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&prompt)) {
      out.ids = *ids;
      if (std::any_of(ids->begin(), ids->end(),
                      [&](std::int32_t id) { return id >= engine_->info().vocab_size; })) {
        co_return fail(errc::bad_request,
                       fmt::format("'prompt' holds a token id above the vocabulary's last, {}",
                                   engine_->info().vocab_size - 1),
                       "prompt");
      }
      if (request->echo) {
        for (const auto id : out.ids) out.text += tools_.tokenizer->token_bytes(id);
        out.text = api::valid_utf8(out.text);  // ids may begin or end within a character
      }
    } else {
      out.text = std::get<std::string>(prompt);
      if (auto fits = check_bytes(out.text.size(), "prompt"); !fits) co_return std::unexpected(fits.error());
      const auto tokenizer = tools_.tokenizer;
      auto encode = [tokenizer, text = std::string_view(out.text)] {
        std::vector<std::int32_t> encoded;
        tokenizer->encode_with_specials(text, encoded);
        return encoded;
      };
      if (out.text.size() > k_inline_prompt_bytes_max) {
        out.ids = co_await offload(pool_, std::move(encode));
      } else {
        out.ids = encode();
      }
    }
    if (out.ids.empty()) co_return fail(errc::bad_request, "'prompt' must not be empty", "prompt");
    co_return out;
  }

  // The engine's own limit on new tokens for a prompt, or why it does not fit.
  result<std::int32_t> output_tokens(const api::generation_options& options, std::int64_t prompt_tokens,
                                     std::string_view param) const {
    const std::int64_t context = engine_->info().context_tokens;
    const std::int64_t left = context - prompt_tokens;
    std::int64_t unasked = std::max<std::int64_t>(left, 1);
    if (options.max_tokens_unasked > 0) unasked = std::min(unasked, options.max_tokens_unasked);
    const std::int64_t wanted = options.max_tokens.value_or(unasked);
    if (left >= 1 && wanted <= left) return static_cast<std::int32_t>(wanted);
    return fail(
        errc::context_length,
        fmt::format(
            "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in the "
            "{}, {} in the completion). Please reduce the length of the {} or completion.",
            context, prompt_tokens + wanted, prompt_tokens, param, wanted, param),
        std::string(param));
  }

  // Checks everything first, so that a refused request never ran a part of itself.
  result<launched> launch(const api::generation_options& options, std::vector<prepared_prompt> prompts,
                          std::string_view param, text_tools tools, io_executor executor,
                          const std::shared_ptr<const engine::token_constraint>& constraint = nullptr) {
    auto sampling = sampling_of(options, defaults_);
    if (auto ok = engine::check(sampling, engine_->info().vocab_size); !ok) {
      return fail(errc::bad_request, ok.error().detail);
    }
    const std::int64_t choices = options.n * static_cast<std::int64_t>(prompts.size());
    if (choices > choices_max_) {
      return fail(errc::bad_request,
                  fmt::format("{} choices at once are more than the {} that can run and wait here", choices,
                              choices_max_),
                  options.n > 1 ? "n" : std::string(param));
    }
    const auto bound = bound_of(options, constraint, engine_->info().vocab_size);
    const std::uint64_t seed = options.seed ? static_cast<std::uint64_t>(*options.seed) : fresh_seed();
    std::int64_t prompt_tokens = 0;
    std::vector<engine::generate_request> requests;
    for (auto& prompt : prompts) {
      const auto count = static_cast<std::int64_t>(prompt.ids.size());
      const auto output = output_tokens(options, count, param);
      if (!output) return std::unexpected(output.error());
      prompt_tokens += count;
      for (std::int64_t i = 0; i < options.n; ++i) {
        sampling.seed = seed + static_cast<std::uint64_t>(requests.size());
        auto& request = requests.emplace_back();
        request.scope = prompt.terms.scope.value_or("").substr(0, engine::k_scope_bytes_max);
        request.checkpoint_at = hints_of(prompt.terms, options.checkpoint_at);
        request.prompt = i + 1 < options.n ? prompt.ids : std::move(prompt.ids);
        request.max_new_tokens = *output;
        request.sampling = sampling;
        if (tools.chat) request.stop_tokens = tools.chat->stop_tokens();
        request.constraint = bound;
      }
    }
    auto run = std::make_unique<generation>(engine_, std::move(tools), options.stop, executor);
    for (auto& request : requests) {
      if (auto added = run->add(std::move(request)); !added) return std::unexpected(added.error());
    }
    return launched(std::move(run), prompt_tokens);
  }

  static std::uint64_t fresh_seed() {
    thread_local std::mt19937_64 source{std::random_device{}()};
    return source();
  }

  std::string name_;
  std::int64_t choices_max_;  // that fit at all, running and waiting
  std::shared_ptr<engine::engine> engine_;
  text_tools tools_;
  answer_constraints constraints_;
  engine::model::generation_config defaults_;
  std::size_t token_bytes_max_ = 1;
  std::atomic<bool> stopped_ = false;
  asio::thread_pool pool_{1};
};

}  // namespace

attempt_failure to_failure(error why) {
  const auto& known = info(why.code);
  attempt_failure out{.how = ending_of(why.code), .status = known.status, .code = std::string(known.code)};
  out.why = std::move(why);
  return out;
}

engine::result<std::shared_ptr<engine_upstream>> engine_upstream::open(const engine_upstream_config& config) {
  auto model = load_model(config.engine);
  if (!model) return std::unexpected(model.error());
  return std::make_shared<embedded>(config, std::move(*model));
}

}  // namespace weir::gateway::upstream
