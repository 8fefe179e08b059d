// weir_encode DIR: a tokenizer behind pipes, for differential tests against other implementations.
// Reads requests "<mode> <bytes>\n" + that many bytes from stdin, where mode is p (plain), s (special tokens
// become ids) or t (time: prints the microseconds of one plain encode) or c (a chat prompt: `messages` as
// JSON, a newline, and `tools` as JSON or nothing); answers one line of space-separated ids each.
#include <simdjson.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/text/chat_format.hpp"
#include "engine/text/tokenizer.hpp"

namespace {

namespace text = weir::engine::text;
namespace dom = simdjson::dom;

std::string text_of(dom::element object, std::string_view key) {
  std::string_view value;
  return object[key].get(value) == simdjson::SUCCESS ? std::string(value) : std::string();
}

std::vector<std::int32_t> render(const text::chat_format& format, const std::string& request) {
  // JSON has no newline outside strings here and escapes those inside, so the first one separates the parts.
  const std::size_t newline = request.find('\n');
  text::chat_prompt prompt;
  prompt.tools_json = request.substr(newline + 1);
  dom::parser parser;
  const dom::array messages = parser.parse(request.substr(0, newline));
  for (const dom::element m : messages) {
    text::chat_message message{text_of(m, "role"), text_of(m, "content"), {}, text_of(m, "tool_call_id")};
    dom::array calls;
    if (m["tool_calls"].get(calls) == simdjson::SUCCESS) {
      for (const dom::element c : calls) {
        const dom::element function = c["function"];
        message.tool_calls.push_back(
            {text_of(c, "id"), text_of(function, "name"), text_of(function, "arguments")});
      }
    }
    prompt.messages.push_back(std::move(message));
  }
  return format.render(prompt).value();
}

bool read_request(char& mode, std::string& body) {
  std::size_t bytes = 0;
  if (std::scanf("%c %zu", &mode, &bytes) != 2 || std::getchar() != '\n') return false;
  body.resize(bytes);
  return std::fread(body.data(), 1, bytes, stdin) == bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto tok = text::tokenizer::load(argv[1]);
  if (!tok) {
    std::fprintf(stderr, "%s\n", tok.error().detail.c_str());
    return 1;
  }
  const auto format = text::chat_format::detect(*tok);
  char mode = 0;
  std::string body;
  std::vector<std::int32_t> ids;
  while (read_request(mode, body)) {
    ids.clear();
    const auto start = std::chrono::steady_clock::now();
    if (mode == 'c') {
      ids = render(**format, body);
    } else if (mode == 's') {
      (*tok)->encode_with_specials(body, ids);
    } else {
      (*tok)->encode(body, ids);
    }
    const auto spent = std::chrono::steady_clock::now() - start;
    if (mode == 't') {
      const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(spent).count();
      ids.assign(1, static_cast<std::int32_t>(microseconds));
    }
    std::string line;
    for (const auto id : ids) line += std::to_string(id) + ' ';
    line.push_back('\n');
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
  }
  return 0;
}
