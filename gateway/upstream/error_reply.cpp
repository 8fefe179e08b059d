#include "gateway/upstream/error_reply.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include "gateway/api/json.hpp"
#include "gateway/api/logprobs_json.hpp"

namespace weir::gateway::upstream {

namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t k_message_bytes_max = 4096;

bool holds_text_or_null(object error, std::string_view key) {
  element value;
  return !error.at_key(key).get(value) && (value.is_null() || value.is_string());
}

std::string_view text_of(object from, std::string_view key) {
  std::string_view out;
  return from.at_key(key).get(out) ? std::string_view() : out;
}

void append_field(std::string& out, object from, std::string_view key, std::string_view otherwise) {
  out += fmt::format(R"(,"{}":)", key);
  element value;
  std::int64_t number = 0;
  const bool found = !from.at_key(key).get(value);
  if (found && value.is_string()) {
    api::append_quoted(out, value.get_string().value_unsafe());
  } else if (found && !value.get(number)) {
    out += fmt::format(R"("{}")", number);
  } else if (!otherwise.empty()) {
    api::append_quoted(out, otherwise);
  } else {
    out += "null";
  }
}

void append_message(std::string& out, int status, std::string_view message) {
  const std::string_view shown = message.substr(0, k_message_bytes_max);
  api::append_quoted(out,
                     shown.empty() ? fmt::format("the target answered {}", status) : api::valid_utf8(shown));
}

std::string write_error(std::string_view message, int status, object from) {
  std::string out = R"({"error":{"message":)";
  append_message(out, status, message);
  append_field(out, from, "type", status >= 500 ? "server_error" : "invalid_request_error");
  append_field(out, from, "param", {});
  append_field(out, from, "code", {});
  return out + "}}";
}

std::string wrap_text(int status, std::string_view text) {
  std::string out = R"({"error":{"message":)";
  append_message(out, status, text);
  out += fmt::format(R"(,"type":"{}","param":null,"code":null}}}})",
                     status >= 500 ? "server_error" : "invalid_request_error");
  return out;
}

std::string from_detail(int status, element detail) {
  std::string_view text;
  if (!detail.get(text)) return wrap_text(status, text);
  return wrap_text(status, simdjson::minify(detail));
}

}  // namespace

bool passes_to_client(int status) noexcept {
  switch (status) {
    case 400:
    case 408:
    case 409:
    case 413:
    case 415:
    case 422:
    case 429:
      return true;
    default:
      return status >= 500 && status <= 599;
  }
}

error_text read_error(const std::string& body) {
  simdjson::dom::parser parser;
  object root;
  error_text out;
  const auto keep = [](std::string& to, std::string_view text) {
    to = api::valid_utf8(text.substr(0, k_message_bytes_max));
  };
  if (parser.parse(body).get(root)) {
    keep(out.message, body);
    return out;
  }
  object error;
  if (root.at_key("error").get(error)) error = root;
  keep(out.code, text_of(error, "code"));
  keep(out.type, text_of(error, "type"));
  for (const auto key : {"message", "detail", "error"}) {
    if (out.message.empty()) keep(out.message, text_of(error, key));
  }
  if (out.message.empty()) keep(out.message, body);
  return out;
}

std::optional<std::string> normalise_error(int status, const std::string& body) {
  simdjson::dom::parser parser;
  object root;
  if (parser.parse(body).get(root)) return wrap_text(status, body);
  element inner;
  object error;
  if (!root.at_key("error").get(inner) && !inner.is_null()) {
    if (inner.get(error)) return from_detail(status, inner);
    const bool shaped = holds_text_or_null(error, "code") && holds_text_or_null(error, "type") &&
                        holds_text_or_null(error, "param") && !text_of(error, "message").empty();
    if (shaped) return std::nullopt;
    return write_error(text_of(error, "message"), status, error);
  }
  if (!root.at_key("detail").get(inner)) return from_detail(status, inner);
  if (const auto message = text_of(root, "message"); !message.empty())
    return write_error(message, status, root);
  return wrap_text(status, body);
}

}  // namespace weir::gateway::upstream
