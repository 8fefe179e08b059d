#include "policy/failover/wording.hpp"

#include <algorithm>
#include <span>

namespace weir::policy::failover {

namespace {

using phrases = std::span<const std::string_view>;

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equals(std::string_view text, std::string_view lower_case) noexcept {
  return std::equal(text.begin(), text.end(), lower_case.begin(), lower_case.end(),
                    [](char a, char b) { return lower(a) == b; });
}

bool contains(std::string_view text, std::string_view lower_case) noexcept {
  return std::search(text.begin(), text.end(), lower_case.begin(), lower_case.end(),
                     [](char a, char b) { return lower(a) == b; }) != text.end();
}

bool is_named(const error_words& error, phrases names) noexcept {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return equals(error.code, name) || equals(error.type, name);
  });
}

bool is_said(const error_words& error, phrases words) noexcept {
  const auto message = error.message.substr(0, k_message_read_bytes_max);
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view phrase) { return contains(message, phrase); });
}

constexpr std::string_view k_overflow_codes[] = {
    "context_length_exceeded",        // OpenAI
    "context_window_exceeded",        // LiteLLM
    "model_context_window_exceeded",  // Z.ai
    "exceed_context_size_error",      // llama.cpp
};

constexpr std::string_view k_overflow_phrases[] = {
    "context_length_exceeded",                       // a body that is no error object
    "maximum context length",                        // OpenAI, vLLM, SGLang, Mistral
    "exceeds the context window",                    // OpenAI responses
    "reduce the length of the messages",             // OpenAI, Groq
    "too long to fit into the model",                // vLLM
    "maximum model length",                          // vLLM
    "max_model_len",                                 // vLLM
    "is too long and exceeds limit",                 // vLLM
    "longer than the model's context length",        // SGLang
    "exceeds the maximum allowed length",            // SGLang
    "exceeds the maximum allowed input length",      // SGLang
    "prompt is too long",                            // Anthropic
    "exceed context limit",                          // Anthropic
    "exceeded model token limit",                    // Moonshot
    "input is too long",                             // Bedrock
    "exceeds the maximum number of tokens allowed",  // Gemini
    "exceeds the available context size",            // llama.cpp
    "greater than the context length",               // LM Studio
    "maximum prompt length",                         // xAI
    "context window exceeds limit",                  // MiniMax
};

constexpr std::string_view k_rate_codes[] = {"rate_limit_exceeded", "rate_limit_error",
                                             "rate_limit_reached_error", "tokens", "requests"};
constexpr std::string_view k_rate_phrases[] = {"tokens per min", "requests per min", "(tpm)",
                                               "(rpm)",          "rate limit",       "rate_limit"};

constexpr std::string_view k_overload_codes[] = {"engine_overloaded_error", "overloaded_error", "overloaded",
                                                 "server_overloaded", "slow_down"};
constexpr std::string_view k_overload_phrases[] = {"overloaded", "queue is full", "at capacity",
                                                   "too many requests"};

constexpr std::string_view k_quota_codes[] = {"insufficient_quota", "exceeded_current_quota_error",
                                              "credit_balance_exhausted", "billing_error",
                                              "billing_hard_limit_reached"};
constexpr std::string_view k_quota_phrases[] = {"exceeded your current quota", "exceeded current quota",
                                                "credit balance is too low", "insufficient balance",
                                                "plan and billing"};

constexpr std::string_view k_moderation_codes[] = {"content_filter", "content_policy_violation",
                                                   "moderation_blocked"};
constexpr std::string_view k_moderation_phrases[] = {"moderation", "flagged", "content policy",
                                                     "content filter", "high risk"};

constexpr std::string_view k_key_codes[] = {"invalid_api_key", "authentication_error", "permission_error",
                                            "invalid_authentication_error"};

constexpr std::string_view k_request_codes[] = {"invalid_request_error", "badrequesterror", "invalid_prompt",
                                                "unprocessableentityerror"};

constexpr std::string_view k_model_codes[] = {"model_not_found"};
constexpr std::string_view k_model_phrases[] = {"model"};

constexpr std::string_view k_window_phrases[] = {"context length", "context window", "context limit",
                                                 "context size", "context above"};

}  // namespace

bool says_context_overflow(const error_words& error) noexcept {
  return is_named(error, k_overflow_codes) || is_said(error, k_overflow_phrases);
}

bool says_rate_limit(const error_words& error) noexcept {
  return is_named(error, k_rate_codes) || is_said(error, k_rate_phrases);
}

bool says_overloaded(const error_words& error) noexcept {
  return is_named(error, k_overload_codes) || is_said(error, k_overload_phrases);
}

bool says_quota_code(const error_words& error) noexcept {
  return is_named(error, k_quota_codes);
}

bool says_quota_text(const error_words& error) noexcept {
  return is_said(error, k_quota_phrases);
}

bool says_moderation(const error_words& error) noexcept {
  return is_named(error, k_moderation_codes) || is_said(error, k_moderation_phrases);
}

bool says_bad_key(const error_words& error) noexcept {
  return is_named(error, k_key_codes);
}

bool says_bad_request(const error_words& error) noexcept {
  return is_named(error, k_request_codes);
}

bool says_unknown_model(const error_words& error) noexcept {
  return is_named(error, k_model_codes) || is_said(error, k_model_phrases);
}

bool says_no_credit(const error_words& error) noexcept {
  constexpr std::string_view k_begin = "your credit balance is too low";
  return equals(error.message.substr(0, k_begin.size()), k_begin);
}

bool mentions_window(const error_words& error) noexcept {
  return is_said(error, k_window_phrases);
}

}  // namespace weir::policy::failover
