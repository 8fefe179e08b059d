#include "policy/failover/failure.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "policy/failover/wording.hpp"

namespace weir::policy::failover {
namespace {

constexpr std::int64_t k_s = 1'000'000'000;

struct row {
  std::string_view what;
  attempt_end seen;
  failure_kind kind;
};

void check(const row& r) {
  INFO(r.what << ": " << r.seen.status << " " << r.seen.message << " gives " << to_text(classify(r.seen)));
  CHECK(classify(r.seen) == r.kind);
}

attempt_end status(int code, std::string_view message, std::string_view type = {},
                   std::string_view name = {}) {
  return {.how = ending::status, .status = code, .code = name, .type = type, .message = message};
}

attempt_end event(std::string_view message, std::string_view type = {}, std::string_view name = {}) {
  return {.how = ending::error_event, .code = name, .type = type, .message = message};
}

TEST_CASE("A12: a prompt that does not fit, in every engine's words") {
  using enum failure_kind;
  const row rows[] = {
      {"OpenAI by code", status(400, "too much", "invalid_request_error", "context_length_exceeded"),
       context_overflow},
      {"OpenAI chat",
       status(400,
              "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 "
              "tokens. Please reduce the length of the messages."),
       context_overflow},
      {"OpenAI responses", status(400, "Your input exceeds the context window of this model."),
       context_overflow},
      {"vLLM",
       status(400,
              "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens "
              "(112946 in the messages, 10000 in the completion).",
              "BadRequestError", "400"),
       context_overflow},
      {"vLLM, max_tokens",
       status(400,
              "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context "
              "length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104)."),
       context_overflow},
      {"vLLM, multimodal",
       status(400,
              "The prompt (total length 25938) is too long to fit into the model (context length 4096)."),
       context_overflow},
      {"vLLM, decoder",
       status(400, "The decoder prompt (length 9001) is longer than the maximum model length of 8192."),
       context_overflow},
      {"vLLM, scheduler", status(500, "Input prompt (35247 tokens) is too long and exceeds limit of 1000"),
       context_overflow},
      {"SGLang, input",
       status(400, "The input (691793 tokens) is longer than the model's context length (540000 tokens)."),
       context_overflow},
      {"SGLang, total",
       status(400, "Requested token count exceeds the model's maximum context length of 131072 tokens."),
       context_overflow},
      {"SGLang, pool",
       status(400, "Input length (131393 tokens) exceeds the maximum allowed length (131040 tokens)."),
       context_overflow},
      {"Anthropic",
       status(400, "prompt is too long: 213462 tokens > 200000 maximum", "invalid_request_error"),
       context_overflow},
      {"Anthropic, output",
       status(400, "input length and `max_tokens` exceed context limit: 178902 + 32000 > 200000"),
       context_overflow},
      {"Moonshot",
       status(400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
              "invalid_request_error"),
       context_overflow},
      {"Kimi's coding plan by 401", status(401, "this plan serves no context above 256K"), context_overflow},
      {"llama.cpp",
       status(400, "the request exceeds the available context size", "exceed_context_size_error"),
       context_overflow},
      {"as an event", event("This model's maximum context length is 4096 tokens.", "BadRequestError"),
       context_overflow},
      {"any case", status(400, "PROMPT IS TOO LONG"), context_overflow},
      {"another 400", status(400, "temperature must be at most 2", "invalid_request_error"), refused},
  };
  for (const auto& r : rows) check(r);
  const std::string early = std::string(4000, 'x') + " maximum context length";
  CHECK(classify(status(400, early)) == context_overflow);
  const std::string late = std::string(k_message_read_bytes_max, 'x') + " maximum context length";
  CHECK(classify(status(400, late)) == refused);
  const auto& traits = traits_of(context_overflow);
  CHECK(traits.retry == retry_scope::larger_window);
  CHECK(traits.breaker == breaker_effect::neutral);
  CHECK(status_of(traits.reply) == 400);
}

TEST_CASE("A14: 413 with a rate in its words is a rate limit, other 413 are the body's size") {
  using enum failure_kind;
  for (const row& r : {
           row{"Groq",
               status(413,
                      "Request too large for model `moonshotai/kimi-k2-instruct` in organization `org_0` "
                      "service tier `on_demand` on tokens per minute (TPM): Limit 10000, Requested 15088, "
                      "please reduce your message size and try again."),
               rate_limited},
           row{"by code", status(413, "no", "tokens", "rate_limit_exceeded"), rate_limited},
           row{"nginx", status(413, "<html>413 Request Entity Too Large</html>"), too_large},
           row{"Anthropic", status(413, "Request exceeds the maximum size", "request_too_large"), too_large},
           row{"with a window in it", status(413, "prompt is too long: 2 tokens > 1 maximum"),
               context_overflow},
       })
    check(r);
  CHECK(traits_of(rate_limited).holds_target);
  CHECK(traits_of(rate_limited).retry == retry_scope::other_target);
}

TEST_CASE("G4: back-pressure and rates are neutral, and hold the target") {
  using enum failure_kind;
  auto busy = status(503, "");
  busy.retry_after_ns = k_s;
  for (const row& r : {
           row{"429", status(429, "Too Many Requests"), overloaded},
           row{"429 bare", status(429, ""), rate_limited},
           row{"429 OpenAI", status(429, "Rate limit reached for gpt", "requests", "rate_limit_exceeded"),
               rate_limited},
           row{"429 Moonshot", status(429, "please wait", "rate_limit_reached_error"), rate_limited},
           row{"429 Moonshot engine",
               status(429, "The engine is currently overloaded, please try again later",
                      "engine_overloaded_error"),
               overloaded},
           row{"503 with Retry-After", busy, overloaded},
           row{"503 SGLang", status(503, "The request queue is full."), overloaded},
           row{"529 Anthropic", status(529, "Overloaded", "overloaded_error"), overloaded},
           row{"event", event("Overloaded", "overloaded_error"), overloaded},
           row{"event of a rate", event("slow down", "rate_limit_error"), rate_limited},
       }) {
    check(r);
    const auto& traits = traits_of(classify(r.seen));
    CHECK(traits.breaker == breaker_effect::neutral);
    CHECK(traits.holds_target);
    CHECK(status_of(traits.reply) == 503);  // 429 is for the caller's own limits
  }
}

TEST_CASE("quota errors: no wait mends them, the key is taken out, the client is not told of our money") {
  using enum failure_kind;
  auto per_minute =
      status(429, "You exceeded your current quota, please check your plan and billing details");
  per_minute.retry_after_ns = 7 * k_s;
  check({"Gemini's rate in quota's words", per_minute, rate_limited});
  for (const row& r : {
           row{"OpenAI",
               status(429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
               quota_exhausted},
           row{"OpenAI 2026", status(429, "", "insufficient_quota", "credit_balance_exhausted"),
               quota_exhausted},
           row{"Moonshot 429", status(429, "", "exceeded_current_quota_error"), quota_exhausted},
           row{"Moonshot 403",
               status(403,
                      "Your account is not active, exceeded current quota, please check your plan and "
                      "billing details",
                      "exceeded_current_quota_error"),
               quota_exhausted},
           row{"402", status(402, "Insufficient Balance"), quota_exhausted},
           row{"Anthropic 400",
               status(400, "Your credit balance is too low to access the API", "invalid_request_error"),
               quota_exhausted},
           row{"event", event("", "insufficient_quota"), quota_exhausted},
       }) {
    check(r);
    const auto& traits = traits_of(classify(r.seen));
    CHECK(traits.takes_key_out);
    CHECK_FALSE(traits.holds_target);
    CHECK(traits.breaker == breaker_effect::neutral);
    CHECK(status_of(traits.reply) == 502);
  }
}

TEST_CASE("A11: 401 and 403 of one upstream key take it out, unless the prompt is what is refused") {
  using enum failure_kind;
  for (const row& r : {
           row{"401", status(401, "Incorrect API key provided", "invalid_request_error", "invalid_api_key"),
               key_refused},
           row{"403 of a proxy", status(403, "authz webhook: context deadline exceeded"), key_refused},
           row{"401 Anthropic", status(401, "invalid x-api-key", "authentication_error"), key_refused},
           row{"403", status(403, "Country, region, or territory not supported"), key_refused},
           row{"403 of a prompt", status(403, "Your input was flagged by moderation"), refused},
           row{"event", event("bad key", "authentication_error"), key_refused},
       })
    check(r);
  const auto& traits = traits_of(key_refused);
  CHECK(traits.takes_key_out);
  CHECK(traits.retry == retry_scope::other_target);
  CHECK(status_of(traits.reply) == 502);
  CHECK_FALSE(traits_of(refused).takes_key_out);
}

TEST_CASE("A1, A2, A10: what broke before the first content is tried elsewhere and counted") {
  using enum failure_kind;
  for (const row& r : {
           row{"A10 host unreachable", {.how = ending::dial_failed}, unreachable},
           row{"TLS", {.how = ending::tls_failed}, unreachable},
           row{"A2 before the head", {.how = ending::reset_before_head}, broken},
           row{"A2 cut after the preamble", {.how = ending::stream_cut}, broken},
           row{"malformed", {.how = ending::malformed}, broken},
           row{"A1 error event first", event("internal error", "server_error"), server_error},
           row{"500", status(500, "CUDA error"), server_error},
           row{"502", status(502, "Bad Gateway"), unavailable},
           row{"503 with nobody behind", status(503, "no healthy upstream"), unavailable},
           row{"504", status(504, ""), too_slow},
           row{"no content", {.how = ending::first_content_timeout}, too_slow},
           row{"hangs", {.how = ending::frozen}, frozen},
       }) {
    check(r);
    const auto& traits = traits_of(classify(r.seen));
    CHECK(traits.retry == retry_scope::other_target);
    CHECK(traits.breaker == breaker_effect::failure);
  }
  check({"F3", {.how = ending::reset_reused}, stale_connection});
  CHECK(traits_of(stale_connection).breaker == breaker_effect::neutral);
}

TEST_CASE("A3, A5, A8: after the first content nothing is tried again") {
  using enum failure_kind;
  for (const auto how : {ending::reset_before_head, ending::stream_cut, ending::malformed, ending::frozen,
                         ending::reset_reused, ending::first_content_timeout}) {
    const attempt_end seen{.how = how, .after_content = true};
    CHECK(classify(seen) == interrupted);
  }
  auto late = event("internal error");
  late.after_content = true;
  CHECK(classify(late) == interrupted);
  auto stop = event("flagged", "invalid_request_error");
  stop.after_content = true;
  CHECK(classify(stop) == stopped);
  for (const auto kind : {interrupted, stopped}) {
    CHECK(traits_of(kind).retry == retry_scope::none);
    CHECK(traits_of(kind).reply == client_reply::error_event);
  }
  CHECK(traits_of(interrupted).breaker == breaker_effect::failure);
  CHECK(traits_of(stopped).breaker == breaker_effect::neutral);
}

TEST_CASE("G3, E4: the client's own errors and the client's leaving are neutral") {
  using enum failure_kind;
  for (const int code : {400, 406, 409, 411, 415, 422, 451}) {
    INFO(code);
    CHECK(classify(status(code, "")) == refused);
  }
  CHECK(traits_of(refused).breaker == breaker_effect::neutral);
  CHECK(traits_of(refused).retry == retry_scope::none);
  CHECK(traits_of(refused).reply == client_reply::pass_through);
  for (const bool after : {false, true}) {
    CHECK(classify({.how = ending::client_gone, .after_content = after}) == client_gone);
    CHECK(classify({.how = ending::cancelled, .after_content = after}) == cancelled);
  }
  CHECK(traits_of(client_gone).breaker == breaker_effect::neutral);
  CHECK(classify({.how = ending::deadline}) == out_of_time);
  CHECK(traits_of(out_of_time).breaker == breaker_effect::neutral);
}

TEST_CASE("what is wrong between us and the target is not the client's") {
  using enum failure_kind;
  for (const row& r : {
           row{"redirect", status(301, ""), misconfigured},
           row{"unknown path", status(404, R"({"detail":"Not Found"})"), misconfigured},
           row{"unknown model", status(404, "The model `x` does not exist.", "NotFoundError", "404"),
               misconfigured},
           row{"an object that the client named",
               status(404, "Response with id 'resp_1' not found", "invalid_request_error"), refused},
           row{"method", status(405, ""), misconfigured},
           row{"501", status(501, ""), misconfigured},
           row{"408", status(408, ""), try_again},
       })
    check(r);
  CHECK(traits_of(misconfigured).breaker == breaker_effect::neutral);
}

TEST_CASE("every kind has its row") {
  std::set<std::string_view> texts;
  for (std::size_t i = 0; i < k_failure_kinds; ++i) {
    const auto kind = static_cast<failure_kind>(i);
    CHECK_FALSE(to_text(kind).empty());
    texts.insert(to_text(kind));
    // What may be tried elsewhere has a reply for when there is no elsewhere.
    if (traits_of(kind).retry != retry_scope::none) {
      CHECK(traits_of(kind).reply != client_reply::relayed);
      CHECK(traits_of(kind).reply != client_reply::nothing);
    }
    CHECK((traits_of(kind).breaker == breaker_effect::success) == (kind == failure_kind::none));
  }
  CHECK(texts.size() == k_failure_kinds);
}

}  // namespace
}  // namespace weir::policy::failover
