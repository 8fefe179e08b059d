// Events of targets through the stream translators: whole and valid events in the order that SDKs demand come
// out, the same however the bytes are cut.
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/dialects/event_fields.hpp"
#include "gateway/dialects/reply_fixes.hpp"
#include "gateway/dialects/to_chat_stream.hpp"
#include "gateway/dialects/to_messages_stream.hpp"
#include "tests/fuzz/dialect_checks.hpp"
#include "tests/gateway/dialects/stream_run.hpp"

using namespace weir::gateway;
using dialects::testing::require;
using dialects::testing::run;

namespace {

// An event that ends in CR is whole before its LF is there, so line ends alone may differ.
std::string plain_lines(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool second = text[i] == '\n' && i > 0 && text[i - 1] == '\r';
    if (!second) out += text[i] == '\r' ? '\n' : text[i];
  }
  return out;
}

// Calls `see` with each event's fields and its parsed data; comments are passed over.
template <class See>
void for_each_event(std::string_view out, See see) {
  relay::event_splitter splitter;
  simdjson::dom::parser parser;
  while (const auto size = splitter.next(out)) {
    const auto fields = dialects::read_fields(out.substr(0, *size));
    out.remove_prefix(*size);
    if (!fields.has_data) continue;
    simdjson::dom::object root;
    if (fields.data != "[DONE]") require(!parser.parse(fields.data).get(root));
    see(fields, root);
  }
  require(out.empty());
}

void check_chunks(std::string_view out) {
  bool ended = false;
  std::size_t index = 0;
  for_each_event(out, [&](const dialects::event_fields& fields, simdjson::dom::object root) {
    require(!ended);
    ended = fields.data == "[DONE]";
    if (ended) return;
    simdjson::dom::element value;
    ended = !root.at_key("error").get(value);
    if (!ended && index++ == 0) require(!root.at_pointer("/choices/0/delta/role").get(value));
  });
}

// message_start (block_start delta* block_stop)* message_delta message_stop, cut off anywhere or by an error.
class message_grammar {
 public:
  void see(std::string_view name, simdjson::dom::object root) {
    require(!ended_ && dialects::string_in(root, "type") == name);
    const std::int64_t index = dialects::count_in(root, "index", -1);
    if (name == "error") {
      ended_ = true;
    } else if (name == "message_start") {
      require(!started_);
      started_ = true;
    } else if (name == "content_block_start") {
      require(started_ && !open_ && !told_ && index == index_);
      open_ = true;
    } else if (name == "content_block_delta") {
      require(open_ && index == index_);
    } else if (name == "content_block_stop") {
      require(open_ && index == index_);
      open_ = false;
      ++index_;
    } else if (name == "message_delta") {
      require(started_ && !open_ && !told_);
      told_ = true;
    } else if (name == "message_stop") {
      require(told_);
      ended_ = true;
    } else {
      require(name == "ping" && started_);
    }
  }

 private:
  std::int64_t index_ = 0;
  bool started_ = false;
  bool open_ = false;
  bool told_ = false;
  bool ended_ = false;
};

void check_messages(std::string_view out) {
  message_grammar grammar;
  for_each_event(out, [&](const dialects::event_fields& fields, simdjson::dom::object root) {
    grammar.see(fields.name, root);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const bool flag = (data[0] & 1) != 0;
  const std::size_t cut = static_cast<std::size_t>(data[1] * 256 + data[2]) % (size - 2);
  const std::string_view bytes(reinterpret_cast<const char*>(data + 3), size - 3);

  dialects::chat_stream chat({{flag ? "" : "c", "m", 1}, flag});
  const std::string chunks = run(chat, bytes);
  check_chunks(chunks);
  dialects::chat_stream chat_cut({{flag ? "" : "c", "m", 1}, flag});
  require(run(chat_cut, bytes, cut) == chunks);

  const dialects::messages_stream::options options{{"msg", "m"}, "req", 3};
  dialects::messages_stream messages(options);
  std::string events = run(messages, bytes);
  dialects::messages_stream messages_cut(options);
  require(run(messages_cut, bytes, cut) == events);
  messages.end(events);
  check_messages(events);

  dialects::messages_stream back(options);
  std::string twice = run(back, chunks);
  back.end(twice);
  check_messages(twice);

  dialects::fixed_stream moonshot;
  std::string fixed = run(moonshot, bytes);
  dialects::fixed_stream moonshot_cut;
  require(plain_lines(run(moonshot_cut, bytes, cut)) == plain_lines(fixed));
  moonshot.end(fixed);
  return 0;
}
