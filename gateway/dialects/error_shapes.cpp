#include "gateway/dialects/error_shapes.hpp"

#include <algorithm>
#include <optional>

#include "gateway/api/logprobs_json.hpp"
#include "gateway/dialects/json_writer.hpp"
#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t k_message_bytes_max = 4096;

struct named_fault {
  std::string_view type;
  target_fault what;
};
constexpr named_fault k_messages_types[] = {
    {"invalid_request_error", target_fault::request},
    {"request_too_large", target_fault::request},
    {"authentication_error", target_fault::credential},
    {"permission_error", target_fault::credential},
    {"billing_error", target_fault::quota},
    {"rate_limit_error", target_fault::rate},
    {"overloaded_error", target_fault::overloaded},
};
constexpr named_fault k_moonshot_types[] = {
    {"invalid_request_error", target_fault::request},      {"content_filter", target_fault::request},
    {"exceeded_current_quota_error", target_fault::quota}, {"rate_limit_reached_error", target_fault::rate},
    {"engine_overloaded_error", target_fault::overloaded},
};

constexpr std::string_view k_too_long[] = {"prompt is too long", "exceed context limit",
                                           "exceeded model token limit"};
constexpr std::string_view k_billing[] = {"billing", "balance", "suspended", "quota"};

template <std::size_t N>
bool says_any(std::string_view text, const std::string_view (&words)[N]) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

std::string bounded(std::string_view text) {
  return api::valid_utf8(text.substr(0, k_message_bytes_max));
}

struct error_words {
  std::string type;
  std::string code;
  std::string message;
};

// Of {"error":{...}}; the text itself where it is something else.
error_words read_words(const std::string& body) {
  error_words out;
  const auto source = source_json::parse(body);
  object fields;
  if (!source || source->root().at_key("error").get(fields)) return {{}, {}, bounded(body)};
  out.type = string_in(fields, "type").value_or("");
  out.code = string_in(fields, "code").value_or("");
  out.message = bounded(string_in(fields, "message").value_or(""));
  return out;
}

template <std::size_t N>
std::optional<target_fault> by_type(const named_fault (&table)[N], std::string_view type) {
  for (const auto& row : table) {
    if (row.type == type) return row.what;
  }
  return std::nullopt;
}

target_fault by_status(int status) {
  switch (status) {
    case 400:
    case 413:
    case 422:
      return target_fault::request;
    case 401:
    case 403:
      return target_fault::credential;
    case 402:
      return target_fault::quota;
    case 429:
      return target_fault::rate;
    case 503:
    case 529:
      return target_fault::overloaded;
    default:
      return target_fault::broken;
  }
}

struct chat_shape {
  int status;
  std::string_view type;
  std::string_view code;
};

chat_shape shape_of(target_fault what) {
  switch (what) {
    case target_fault::request:
      return {400, "invalid_request_error", ""};
    case target_fault::context_length:
      return {400, "invalid_request_error", "context_length_exceeded"};
    case target_fault::rate:
      return {429, "requests", "rate_limit_exceeded"};
    case target_fault::quota:
    case target_fault::overloaded:
      return {503, "server_error", "overloaded"};
    case target_fault::credential:
    case target_fault::broken:
      break;
  }
  return {502, "upstream_error", "upstream_failed"};
}

target_error finish(target_fault what, int status, std::string message) {
  target_error out{what, shape_of(what).status, std::move(message)};
  if (what == target_fault::request && (status == 413 || status == 422)) out.status = status;
  if (what == target_fault::broken && status >= 500 && status <= 599) out.status = status;
  if (what == target_fault::credential) out.message = "the target does not accept the gateway's credential";
  if (what == target_fault::rate) out.message = "the target limits the gateway's rate of requests or tokens";
  if (what == target_fault::quota) out.message = "the gateway's account at the target has no quota left";
  if (out.message.empty()) out.message = "the target failed and gave no reason";
  return out;
}

std::string_view messages_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 402:
      return "billing_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
    case 504:
      return "timeout_error";
    case 409:
      return "conflict_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 529:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

// Their words for a used-up budget and for no room have their own statuses.
messages_error write_messages_error(int status, std::string_view code, std::string_view message,
                                    std::string_view request_id) {
  if (code == "insufficient_quota") status = 402;
  if (status == 503) status = 529;
  messages_error out{status, {}};
  json_writer w(out.body);
  w.open('{').key("type").text("error").key("error").open('{').key("type").text(messages_type(status));
  w.key("message").text(message.empty() ? "the request failed" : bounded(message)).close('}');
  w.key("request_id");
  if (request_id.empty()) {
    w.raw("null");
  } else {
    w.text(request_id);
  }
  w.close('}');
  return out;
}

void append_chat_error(json_writer& w, const target_error& e, bool with_status) {
  const auto shape = shape_of(e.what);
  w.open('{').key("error").open('{').key("message").text(e.message).key("type").text(shape.type);
  w.key("param").raw("null").key("code");
  if (shape.code.empty()) {
    w.raw("null");
  } else {
    w.text(shape.code);
  }
  if (with_status) w.key("status").number(e.status);
  w.close('}').close('}');
}

}  // namespace

target_error read_messages_error(int status, const std::string& body) {
  const auto words = read_words(body);
  auto what = by_type(k_messages_types, words.type).value_or(by_status(status));
  if (what == target_fault::request && says_any(words.message, k_too_long))
    what = target_fault::context_length;
  if (words.type == "timeout_error") status = 504;
  return finish(what, status, words.message);
}

target_error read_moonshot_error(int status, const std::string& body) {
  const auto words = read_words(body);
  auto what = by_type(k_moonshot_types, words.type).value_or(by_status(status));
  if (what == target_fault::request && says_any(words.message, k_too_long))
    what = target_fault::context_length;
  if (what == target_fault::rate && words.type != "rate_limit_reached_error" &&
      says_any(words.message, k_billing)) {
    what = target_fault::quota;
  }
  return finish(what, status, words.message);
}

std::string chat_error_json(const target_error& e) {
  std::string out;
  json_writer w(out);
  append_chat_error(w, e, false);
  return out;
}

std::string chat_error_event(const target_error& e) {
  std::string out = "data: ";
  json_writer w(out);
  append_chat_error(w, e, true);
  return out + "\n\n";
}

messages_error to_messages_error(const error& e, std::string_view request_id) {
  const auto& row = info(e.code);
  return write_messages_error(row.status, row.code, e.message, request_id);
}

messages_error to_messages_error(int status, const std::string& chat_body, std::string_view request_id) {
  const auto words = read_words(chat_body);
  return write_messages_error(status, words.code, words.message, request_id);
}

std::string messages_error_event(const messages_error& e) {
  return "event: error\ndata: " + e.body + "\n\n";
}

}  // namespace weir::gateway::dialects
