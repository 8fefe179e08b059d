// How engines and hosted APIs word what their status does not say. Codes and types are compared whole,
// phrases are searched in the message without regard to case. Read of a message: its first 4 KiB. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace weir::policy::failover {

inline constexpr std::size_t k_message_read_bytes_max = 4096;

struct error_words {
  std::string_view code;
  std::string_view type;
  std::string_view message;
};

bool says_context_overflow(const error_words& error) noexcept;
bool says_rate_limit(const error_words& error) noexcept;
bool says_overloaded(const error_words& error) noexcept;
bool says_quota_code(const error_words& error) noexcept;  // a code or type of money, which no wait mends
bool says_quota_text(const error_words& error) noexcept;  // words of money, also used for rates by some
bool says_no_credit(
    const error_words& error) noexcept;  // begins so: a message may quote what the client wrote
bool says_moderation(const error_words& error) noexcept;  // the prompt's content is refused, not the key
bool says_bad_key(const error_words& error) noexcept;
bool says_bad_request(const error_words& error) noexcept;
bool says_unknown_model(const error_words& error) noexcept;
bool mentions_window(const error_words& error) noexcept;

}  // namespace weir::policy::failover
