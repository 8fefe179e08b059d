// Replies and errors of targets through every translator: what comes out is one JSON object, or an error.
#include <cstdint>
#include <string>

#include "gateway/dialects/error_shapes.hpp"
#include "gateway/dialects/reply_fixes.hpp"
#include "gateway/dialects/to_chat_reply.hpp"
#include "gateway/dialects/to_messages_reply.hpp"
#include "tests/fuzz/dialect_checks.hpp"

using namespace weir::gateway;
using dialects::testing::is_json;
using dialects::testing::require;

namespace {

void check_error(const dialects::target_error& e) {
  require(is_json(dialects::chat_error_json(e)) && e.status >= 400 && e.status <= 599 && !e.message.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const int status = 400 + data[0] % 200;
  const std::string body(reinterpret_cast<const char*>(data + 1), size - 1);
  if (const auto chat = dialects::to_chat_reply(body, {"c", "m", 1})) {
    require(is_json(chat->body) && chat->usage.prompt_tokens >= 0);
    const auto back = dialects::to_messages_reply(chat->body, {"msg", "m"});
    require(!back || is_json(back->body));
  }
  if (const auto message = dialects::to_messages_reply(body, {"msg", "m"})) {
    require(is_json(message->body) && message->usage.completion_tokens >= 0);
    const auto back = dialects::to_chat_reply(message->body, {"c", "m", 1});
    require(!back || is_json(back->body));
  }
  if (const auto fixed = dialects::fix_chat_reply(body)) {
    require(is_json(*fixed) && !dialects::fix_chat_reply(*fixed));
  }
  check_error(dialects::read_messages_error(status, body));
  check_error(dialects::read_moonshot_error(status, body));
  require(is_json(dialects::to_messages_error(status, body, "req").body));
  return 0;
}
