#include "gateway/api/token_count.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include "gateway/limits/ticket.hpp"
#include "gateway/relay/relay.hpp"
#include "gateway/route/model_router.hpp"

namespace weir::gateway::api {

namespace {

using engine::text::prompt_segments;

error no_tokenizer(const model_entry& entry) {
  return {errc::unsupported, fmt::format("the gateway has no tokenizer for '{}'", entry.name), "model"};
}

error too_uniform(const char* what) {
  return {
      errc::unsupported,
      fmt::format("{} holds more than {} bytes that can only be tokenized at once", what, k_uncut_bytes_max),
      {}};
}

// Text by text, so that an I/O thread can serve others in between.
class encoder {
 public:
  encoder(const engine::text::tokenizer& tokenizer, const prompt_segments& segments)
      : tokenizer_(tokenizer), segments_(segments) {}

  enum class state { more, done, stuck };

  // Goes on by about k_tokenize_slice_bytes.
  state step() {
    std::size_t bytes = 0;
    while (bytes < route::k_tokenize_slice_bytes) {
      if (rest_.empty() && !open_next()) return state::done;
      if (rest_.empty()) continue;
      const auto window = rest_.substr(0, route::k_tokenize_slice_bytes + k_uncut_bytes_max);
      const bool whole = window.size() == rest_.size();
      std::size_t cut = rest_.size();
      if (rest_.size() > route::k_tokenize_slice_bytes) {
        cut = tokenizer_.safe_cut(window, route::k_tokenize_slice_bytes);
      }
      if (cut == window.size() && !whole) return state::stuck;
      tokenizer_.encode_slice(rest_.substr(0, cut), text_, ids);
      rest_.remove_prefix(cut);
      bytes += cut;
    }
    return state::more;
  }

  std::vector<std::int32_t> ids;

 private:
  bool open_next() {
    if (at_ == segments_.list.size()) return false;
    const auto& segment = segments_.list[at_++];
    if (segment.special >= 0) {
      ids.push_back(segment.special);
    } else {
      rest_ = segment.text;
      text_ = {};
    }
    return true;
  }

  const engine::text::tokenizer& tokenizer_;
  const prompt_segments& segments_;
  std::size_t at_ = 0;
  std::string_view rest_;  // of the open text
  engine::text::text_state text_;
};

task<result<std::vector<std::int32_t>>> encode_chat(const route::model_terms& terms,
                                                    const engine::text::chat_prompt& chat) {
  const auto segments = terms.chat->segments(chat);
  if (!segments) co_return fail(errc::bad_request, segments.error().detail, "messages");
  encoder work(*terms.tokenizer, *segments);
  const io_executor executor = co_await asio::this_coro::executor;
  auto state = work.step();
  while (state == encoder::state::more) {
    co_await asio::post(executor, use_task);
    state = work.step();
  }
  if (state == encoder::state::stuck) co_return std::unexpected(too_uniform("a message"));
  co_return std::move(work.ids);
}

// As the embedded engine reads it: special tokens in it are its author's to write.
result<std::vector<std::int32_t>> encode_plain(const route::model_terms& terms, const std::string& text) {
  if (text.size() > k_uncut_bytes_max) return std::unexpected(too_uniform("'prompt'"));
  std::vector<std::int32_t> out;
  terms.tokenizer->encode_with_specials(text, out);
  return out;
}

task<result<std::vector<std::int32_t>>> encode(const model_entry& entry, const generation_call& call) {
  const auto& terms = entry.router->terms();
  const auto content = route::read_prompt(call);
  if (!terms.tokenizer) co_return std::unexpected(no_tokenizer(entry));
  if (!content) co_return fail(errc::bad_request, "needs 'messages' or 'prompt'");
  if (const auto* text = std::get_if<std::string>(&*content)) co_return encode_plain(terms, *text);
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&*content)) co_return *ids;
  const auto* chat = std::get_if<engine::text::chat_prompt>(&*content);
  if (chat == nullptr) co_return fail(errc::unsupported, "only a prompt of text can be tokenized here");
  if (!terms.chat) {
    co_return fail(errc::unsupported, fmt::format("the chat format of '{}' is not built in", entry.name));
  }
  auto found = co_await encode_chat(terms, *chat);
  co_return found;
}

}  // namespace

task<result<token_ids>> count_tokens(request_context& context, result<generation_call> call) {
  if (!call) co_return std::unexpected(std::move(call.error()));
  const auto entry = relay::find_model(context, call->model);
  if (!entry) co_return std::unexpected(entry.error());
  const io_executor executor = co_await asio::this_coro::executor;
  auto& keys = context.state.keys;
  limits::ticket ticket(context.caller, keys.money.get(), keys.shared.get(), context.exchange, executor);
  const result<void> taken = co_await ticket.take_request();
  if (!taken) {
    context.state.metrics.limit_refused(taken.error().code);
    co_return std::unexpected(taken.error());
  }
  auto found = co_await encode(**entry, *call);
  if (!found) co_return std::unexpected(std::move(found.error()));
  co_return token_ids{std::move(*found), *entry, ticket.headers()};
}

}  // namespace weir::gateway::api
