// A generation or embeddings request as the gateway needs it: the body as it came, which model it asks,
// whether it streams, and what a target must be able to do. Lenient on purpose: what a replica may understand
// and the gateway does not is the replica's to judge; but for what bounds the cost, which all must read
// alike. The embedded engine reads it strictly (chat_types.hpp, completion_types.hpp). Values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/errc.hpp"
#include "policy/types.hpp"

namespace weir::gateway::api {

inline constexpr std::size_t k_cache_salt_bytes_max = 1024;
inline constexpr std::size_t k_session_bytes_max = 512;

// messages and count_tokens: as Anthropic has them, for targets that speak the same; what can be said as a
// chat is one (dialects/to_chat_request.hpp).
enum class generation_kind { chat, completions, embeddings, responses, messages, count_tokens };

struct generation_call {
  generation_kind kind = generation_kind::chat;
  std::string body;  // one JSON object, no key twice, valid UTF-8
  std::string model;
  bool stream = false;
  bool include_usage = false;  // the client wants the usage event of a stream
  bool has_tools = false;
  bool searches = false;               // the web, at the target: what that costs is not in its tokens
  std::int64_t output_tokens_max = 0;  // of one choice; 0: the client names none
  bool output_bounded = false;  // in a field that every target obeys, and no other field says otherwise
  std::vector<std::string_view> loose_fields;  // literals: bound the output elsewhere, and nothing here
  std::int64_t choices = 1;                    // answers asked for, over all prompts
  std::int64_t media_parts = 0;  // images, videos and sounds: what they cost is not in their bytes
  std::string cache_salt;        // the client's own; longer ones than k_cache_salt_bytes_max are an error
  // What the client calls the conversation that this goes on with (prompt_cache_key or a session header):
  // compared only, within one API key. Longer ones than k_session_bytes_max are ignored.
  std::string session;
  // Of a chat that came as a messages request: that request, for a target that speaks it too. Else empty.
  std::string messages;
  std::string version_lines;  // for such a target: the header lines in which the client asks for a version
  policy::request_facts facts;
};

// Names the session, unless it has a name or this one is too long.
void name_session(generation_call& call, std::string_view name);

result<generation_call> read_generation_call(generation_kind kind, std::string body);

}  // namespace weir::gateway::api
