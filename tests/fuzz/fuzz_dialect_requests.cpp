// Request bodies through every translator: what comes out is one JSON object that the reader of its API
// takes, edits change nothing twice, and what was translated can be translated again.
#include <cstdint>
#include <string>

#include "gateway/api/generation_call.hpp"
#include "gateway/dialects/chat_fixes.hpp"
#include "gateway/dialects/responses_to_chat.hpp"
#include "gateway/dialects/source_json.hpp"
#include "gateway/dialects/to_chat_request.hpp"
#include "gateway/dialects/to_messages_request.hpp"
#include "tests/fuzz/dialect_checks.hpp"

using namespace weir::gateway;
using dialects::testing::is_json;
using dialects::testing::require;

namespace {

void to_messages(const std::string& body, const dialects::messages_target& target) {
  const auto there = dialects::to_messages_request(body, target);
  if (!there) return require(!there.error().message.empty());
  require(is_json(*there));
  const auto back = dialects::to_chat_request(*there, dialects::messages_endpoint::count_tokens);
  if (back) require(is_json(*back));
}

void to_chat(const std::string& body, dialects::messages_endpoint endpoint) {
  const auto there = dialects::to_chat_request(body, endpoint);
  if (!there) return require(!there.error().message.empty());
  require(is_json(*there));
  const auto call = api::read_generation_call(api::generation_kind::chat, *there);
  require(!call || call->include_usage == call->stream);
  const auto back = dialects::to_messages_request(*there, {});
  if (back) require(is_json(*back));
}

void from_responses(const std::string& body) {
  const auto there = dialects::responses_to_chat(body);
  if (!there) return require(!there.error().message.empty());
  require(is_json(there->body));
  require(is_json("{" + there->echo + "}"));
}

void fix(const std::string& body, const dialects::chat_fixes& fixes) {
  const auto fixed = dialects::fix_chat_request(body, fixes);
  if (!fixed || !*fixed) return;
  require(is_json(**fixed));
  const auto again = dialects::fix_chat_request(**fixed, fixes);
  require(again.has_value() && !*again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool flag = (data[0] & 1) != 0;
  const std::string body(reinterpret_cast<const char*>(data + 1), size - 1);
  to_messages(body, {.model = flag ? "claude" : "",
                     .max_tokens_default = 5000,
                     .thinking = flag ? dialects::thinking_form::budget : dialects::thinking_form::adaptive,
                     .sampling = flag});
  to_chat(body, flag ? dialects::messages_endpoint::count_tokens : dialects::messages_endpoint::messages);
  from_responses(body);
  fix(body, flag ? dialects::k_moonshot_fixes : dialects::k_vllm_fixes);
  return 0;
}
