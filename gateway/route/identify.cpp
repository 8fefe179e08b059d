#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include "engine/engine.hpp"
#include "gateway/route/model_router.hpp"

namespace weir::gateway::route {

namespace {

using std::chrono::steady_clock;

// Measures the time between yields.
class working_time {
 public:
  void pause() { total_ += steady_clock::now() - since_; }
  void go_on() { since_ = steady_clock::now(); }
  double seconds() const { return std::chrono::duration<double>(total_).count(); }

 private:
  steady_clock::time_point since_ = steady_clock::now();
  steady_clock::duration total_{};
};

prompt_keys key_ids(const prefix_index::block_key& root, const std::vector<std::int32_t>& ids,
                    std::size_t unit_tokens) {
  prompt_keys out{.how = keyed_how::tokens, .tokens = ids.size(), .unit_tokens = unit_tokens};
  out.keys = prefix_index::chain_keys(root, ids, unit_tokens);
  return out;
}

// The text to key where the prompt cannot be tokenized.
std::string text_of(const prompt_content& content) {
  if (const auto* chat = std::get_if<engine::text::chat_prompt>(&content)) return canonical_text(*chat);
  if (const auto* text = std::get_if<std::string>(&content)) return *text;
  if (const auto* opaque = std::get_if<opaque_text>(&content)) return opaque->text;
  return {};
}

}  // namespace

task<std::shared_ptr<const prompt_identity>> model_router::identify(const api::generation_call& call,
                                                                    const auth::identity& caller,
                                                                    bool counted) {
  working_time time;
  auto out = std::make_shared<prompt_identity>();
  const auto& counters = shared_.counters();
  // Where nothing depends on what the prompt says, its size tells enough of the work.
  out->keys.tokens = call.body.size() / k_bytes_per_token_estimate;
  // A target that keeps tenants apart gets the salt with every request, whether or not its prompt has keys.
  scope_table::scope scope;
  if (!ids_.empty() || engines_) {
    scope = shared_.scopes().find(caller, sharing_with(caller), chain_model_, call.cache_salt);
    out->cache_salt = terms_.own_salts && call.cache_salt.size() <= engine::k_scope_bytes_max
                          ? call.cache_salt
                          : scope.cache_salt;
  }
  const auto content = ids_.empty() && rules_.empty() ? std::nullopt : read_prompt(call);
  if (!content) {
    if (counted) counters.keyed[static_cast<std::size_t>(keyed_how::none)]->Increment();
    time.pause();
    out->took_s = time.seconds();
    co_return out;
  }
  engine::text::prompt_segments segments;
  const auto* chat = std::get_if<engine::text::chat_prompt>(&*content);
  const auto* plain = std::get_if<std::string>(&*content);
  if (terms_.tokenizer && plain != nullptr) segments.view(*plain);
  if (terms_.chat && chat != nullptr) {
    if (auto rendered = terms_.chat->segments(*chat)) segments = std::move(*rendered);
  }
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&*content)) {
    out->keys = key_ids(scope.root, *ids, prefix_index::k_unit_tokens_default);
  } else if (!segments.list.empty()) {
    prompt_keyer keyer(&shared_.memory(), *terms_.tokenizer, segments.list, scope.root);
    const auto executor = co_await asio::this_coro::executor;
    while (!keyer.step(k_tokenize_slice_bytes)) {
      time.pause();
      co_await asio::post(executor, use_task);
      time.go_on();
    }
    out->keys = keyer.take();
  } else {
    out->keys = key_text(scope.root, text_of(*content));
  }
  if (counted) counters.keyed[static_cast<std::size_t>(out->keys.how)]->Increment();
  time.pause();
  out->took_s = time.seconds();
  co_return out;
}

}  // namespace weir::gateway::route
