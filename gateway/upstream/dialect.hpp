// How an HTTP target wants requests said and says its answers: in the gateway's own chat API, or in a dialect
// of it (gateway/dialects). Where nothing differs no byte is looked at.
//
// Values and stateless functions, any thread; a reply_translator belongs to one reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/generation_call.hpp"
#include "gateway/config/config.hpp"
#include "gateway/errc.hpp"
#include "gateway/relay/event_splitter.hpp"

namespace weir::gateway::upstream {

enum class dialect : std::uint8_t { openai, vllm, moonshot, anthropic };

dialect to_dialect(std::string_view configured);

// What the target speaks of the API: as configured, else what its dialect is known for.
policy::endpoint_set endpoints_of(const config::http_target_config& target);

// Behind the base URL.
std::string_view path_of(dialect of, policy::endpoint asked) noexcept;

// Header lines: those that name the version of the API, and those that carry a key of ours.
std::string_view version_lines(dialect of, const api::generation_call& call) noexcept;
std::string credential_lines(dialect of, std::string_view key);

// Whether requests of a dialect start from the client's own body, and not from one that was edited for the
// chat API.
constexpr bool is_said_anew(dialect of) noexcept {
  return of == dialect::anthropic;
}

struct wanted_request {
  std::string_view model;
  std::int64_t output_tokens_max = 0;  // where the body does not bound the answer; 0: as it is
};

// The request as a client of Anthropic's API said it, where the target speaks that: it goes there
// untranslated, and so does the answer. Null: it does not.
const std::string* said_as_asked(dialect of, const api::generation_call& call) noexcept;

// The body as the target reads it; nothing: as it is. What cannot be said there is errc::unsupported.
result<std::optional<std::string>> say_request(const config::http_target_config& target,
                                               policy::endpoint asked, const std::string& body,
                                               const wanted_request& wanted);

struct said_error {
  int status = 502;
  std::string body;
};

// One reply on its way into the chat API.
class reply_translator {
 public:
  virtual ~reply_translator() = default;

  // A whole answer; errc::upstream_failed where it is none.
  virtual result<std::string> whole(std::string body) = 0;
  // One whole event; appends whole events.
  virtual void push(std::string_view event, std::string& out) = 0;
  // The events ended, in order or not.
  virtual void end(std::string& out) = 0;
  // A status other than 2xx; nothing: any chat target's way of error is read alike.
  virtual std::optional<said_error> failure(int status, const std::string& body) = 0;
};

// Null where replies are as they should be. `model`: the target's name of it.
std::unique_ptr<reply_translator> make_translator(dialect of, policy::endpoint asked, std::string_view model);
// For replies that need no translation; errors are said as any chat target says them.
std::unique_ptr<reply_translator> make_error_translator();

// Cuts a target's bytes into events and has each translated.
class event_translation final {
 public:
  event_translation(std::unique_ptr<reply_translator> how, std::size_t event_bytes_max)
      : how_(std::move(how)), event_bytes_max_(event_bytes_max) {}

  // Whole events, valid until the next call; nothing: the target sends an event of more than the limit.
  std::optional<std::string_view> push(std::string_view bytes);
  std::string_view end();

  std::size_t held_bytes() const noexcept { return buffer_.capacity() + out_.capacity(); }

 private:
  std::unique_ptr<reply_translator> how_;
  std::size_t event_bytes_max_;
  relay::event_splitter splitter_;
  std::string buffer_;  // the begin of an event
  std::string out_;
};

}  // namespace weir::gateway::upstream
