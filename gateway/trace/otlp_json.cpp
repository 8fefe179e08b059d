#include "gateway/trace/otlp_json.hpp"

#include <fmt/format.h>

#include <cmath>

#include "engine/text/printable.hpp"
#include "gateway/api/json.hpp"

namespace weir::gateway::trace {

namespace {

constexpr int k_status_error = 2;

void append_text(std::string& out, std::string_view text) {
  if (engine::text::is_printable(text)) return api::append_quoted(out, text);
  api::append_quoted(out, engine::text::printable(text));
}

void append_value(std::string& out, const attribute& of) {
  struct writer {
    std::string& out;
    void operator()(const std::string& text) const {
      out += R"("stringValue":)";
      append_text(out, text);
    }
    void operator()(std::int64_t number) const { out += fmt::format(R"("intValue":"{}")", number); }
    void operator()(double number) const {
      out += fmt::format(R"("doubleValue":{})", std::isfinite(number) ? number : 0.0);
    }
    void operator()(bool flag) const { out += flag ? R"("boolValue":true)" : R"("boolValue":false)"; }
  };
  out += R"({"key":)";
  append_text(out, of.first);
  out += R"(,"value":{)";
  std::visit(writer{out}, of.second);
  out += "}}";
}

void append_attributes(std::string& out, std::span<const attribute> list) {
  out += R"("attributes":[)";
  bool first = true;
  for (const auto& one : list) {
    if (!std::exchange(first, false)) out += ',';
    append_value(out, one);
  }
  out += ']';
}

void append_span(std::string& out, const span& of) {
  out += fmt::format(R"({{"traceId":"{}","spanId":"{}")", to_hex(of.trace), to_hex(of.id));
  if (of.parent != span_id{}) out += fmt::format(R"(,"parentSpanId":"{}")", to_hex(of.parent));
  if (!of.state.empty()) {
    out += R"(,"traceState":)";
    append_text(out, of.state);
  }
  out += R"(,"name":)";
  append_text(out, of.name);
  out += fmt::format(R"(,"kind":{},"startTimeUnixNano":"{}","endTimeUnixNano":"{}",)",
                     static_cast<int>(of.kind), of.begun_unix_ns, of.ended_unix_ns);
  append_attributes(out, of.attributes);
  if (!of.error.empty()) {
    out += fmt::format(R"(,"status":{{"code":{},"message":)", k_status_error);
    append_text(out, of.error);
    out += '}';
  }
  out += '}';
}

}  // namespace

std::string to_otlp_json(const resource& of, std::span<const span> spans) {
  const attribute about[] = {{"service.name", of.service_name},
                             {"service.version", of.service_version},
                             {"service.instance.id", of.instance}};
  std::string out = R"({"resourceSpans":[{"resource":{)";
  append_attributes(out, about);
  out += R"(},"scopeSpans":[{"scope":{"name":"weir"},"spans":[)";
  bool first = true;
  for (const auto& one : spans) {
    if (!std::exchange(first, false)) out += ',';
    append_span(out, one);
  }
  return out + "]}]}]}";
}

}  // namespace weir::gateway::trace
