#include "loadtest/replay/trace.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <fstream>

namespace weir::loadtest::replay {

namespace {

// What is wrong with the line, or nothing.
const char* read_line(simdjson::ondemand::document& line, trace_request& out) {
  simdjson::ondemand::object object;
  if (line.get_object().get(object)) return "is not a JSON object";
  double milliseconds = 0;
  if (object["timestamp"].get_double().get(milliseconds) || !(milliseconds >= 0)) return "has no timestamp";
  out.at_s = milliseconds / 1000;
  if (object["input_length"].get_int64().get(out.input_tokens)) return "has no input_length";
  if (object["output_length"].get_int64().get(out.output_tokens)) return "has no output_length";
  if (out.input_tokens < 0 || out.input_tokens > k_trace_tokens_max || out.output_tokens < 0 ||
      out.output_tokens > k_trace_tokens_max) {
    return "has a length out of range";
  }
  simdjson::ondemand::array ids;
  if (object["hash_ids"].get_array().get(ids)) return "has no hash_ids";
  for (auto id : ids) {
    std::uint64_t value = 0;
    if (id.get_uint64().get(value)) return "has a hash id that is no unsigned integer";
    out.blocks.push_back(value);
    if (out.blocks.size() > k_trace_tokens_max / k_trace_block_tokens) return "has too many hash_ids";
  }
  out.input_tokens = std::max<std::int64_t>(1, out.input_tokens);
  return nullptr;
}

}  // namespace

std::expected<std::vector<trace_request>, std::string> read_trace(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::unexpected(fmt::format("{}: cannot be opened", file.string()));
  std::vector<trace_request> out;
  simdjson::ondemand::parser parser;
  std::string text;
  std::size_t bytes = 0;
  for (int number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    bytes += text.size();
    if (bytes > k_trace_bytes_max) return std::unexpected(fmt::format("{}: too large", file.string()));
    const simdjson::padded_string padded(text);
    simdjson::ondemand::document document;
    trace_request request;
    const char* fault = parser.iterate(padded).get(document) ? "is not JSON" : read_line(document, request);
    if (fault != nullptr) return std::unexpected(fmt::format("{}:{}: {}", file.string(), number, fault));
    out.push_back(std::move(request));
  }
  if (out.empty()) return std::unexpected(fmt::format("{}: holds no requests", file.string()));
  std::stable_sort(out.begin(), out.end(),
                   [](const trace_request& a, const trace_request& b) { return a.at_s < b.at_s; });
  return out;
}

}  // namespace weir::loadtest::replay
