// Any sequence of tokens through the chat parsers: nothing crashes, text stays valid UTF-8, calls count up
// from 0 and arguments belong to the last call. Each input byte below 240 is a token of one byte, each other
// one a special token.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/text/chat_format.hpp"
#include "engine/text/tokenizer_files.hpp"
#include "engine/text/utf8.hpp"

namespace {

using namespace weir::engine::text;

constexpr int k_first_special_byte = 240;

std::shared_ptr<const chat_format> make(std::initializer_list<std::string_view> names) {
  constexpr char k_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string file;
  for (int b = 0; b < 256; ++b) {
    file += {k_alphabet[b >> 2], k_alphabet[(b & 3) << 4], '=', '=', ' '};
    file += std::to_string(b) + "\n";
  }
  std::string entries;
  for (int i = 0; const auto name : names) {
    entries +=
        (i > 0 ? ",\"" : "\"") + std::to_string(256 + i) + "\":{\"content\":\"" + std::string(name) + "\"}";
    ++i;
  }
  return *chat_format::detect(*make_tokenizer(file, "{\"added_tokens_decoder\":{" + entries + "}}"));
}

std::shared_ptr<const chat_format> kimi_linear() {
  return make({"<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>",
               "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
               "<|tool_call_argument_begin|>", "<|tool_call_end|>"});
}
std::shared_ptr<const chat_format> kimi_k3() {
  return make({"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"});
}

struct checker {
  int call_count = 0;
  static void text(std::string_view bytes) {
    if (bytes.empty()) std::abort();
    while (!bytes.empty()) {
      const utf8_step step = next_char(bytes);
      if (step.status != utf8_status::valid) std::abort();
      bytes.remove_prefix(step.size);
    }
  }
  void operator()(const content_delta& d) const { text(d.text); }
  void operator()(const reasoning_delta& d) const { text(d.text); }
  void operator()(const tool_call_begin& d) {
    if (d.index != call_count++ || d.name.empty() || d.id.empty()) std::abort();
  }
  void operator()(const tool_arguments_delta& d) const {
    text(d.text);
    if (d.index != call_count - 1) std::abort();
  }
};

void run(const chat_format& format, bool thinking, const std::uint8_t* data, std::size_t size) {
  const auto parser = format.make_parser(thinking);
  checker check;
  for (std::size_t i = 0; i < size; ++i) {
    const std::int32_t token =
        data[i] < k_first_special_byte ? data[i] : 256 + data[i] - k_first_special_byte;
    for (auto& d : parser->push(token)) std::visit(check, d);
  }
  for (auto& d : parser->finish()) std::visit(check, d);
  if (parser->has_tool_calls() != (check.call_count > 0)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto linear = kimi_linear();
  static const auto k3 = kimi_k3();
  run(*linear, true, data, size);
  run(*k3, true, data, size);
  run(*k3, false, data, size);
  return 0;
}
