// What shadow copies read: paths and the requests that they are cut from, answers, pages of pairs. The first
// byte chooses which; of the rest the first line is a path.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/api/generation_call.hpp"
#include "gateway/api/json.hpp"
#include "gateway/relay/event_splitter.hpp"
#include "gateway/shadow/agree.hpp"
#include "gateway/shadow/answer.hpp"
#include "gateway/shadow/pair_json.hpp"
#include "gateway/shadow/redact.hpp"
#include "gateway/shadow/report.hpp"
#include "policy/comparison/overlap.hpp"

using namespace weir::gateway;

namespace {

using policy_likeness = weir::policy::comparison::likeness;

// Whether a member that the path names is left.
bool is_left(simdjson::dom::element at, std::span<const shadow::path_step> path) {
  const auto& step = path.front();
  if (step.is_element()) {
    simdjson::dom::array list;
    if (at.get(list)) return false;
    return std::any_of(list.begin(), list.end(), [&](auto one) { return is_left(one, path.subspan(1)); });
  }
  simdjson::dom::object object;
  simdjson::dom::element inside;
  if (at.get(object) || object.at_key(step.name).get(inside)) return false;
  return path.size() == 1 || is_left(inside, path.subspan(1));
}

void cut(std::string_view path_text, const std::string& body) {
  const auto path = shadow::parse_path(path_text);
  if (!path || !api::read_generation_call(api::generation_kind::chat, body)) return;
  auto left = shadow::redact(body, std::span(&*path, 1));
  if (left.size() > body.size()) std::abort();
  if (!api::read_generation_call(api::generation_kind::chat, left)) {
    // What is cut out of a message may be what makes it one; a body it must still be.
    if (path->size() == 1) std::abort();
  }
  api::tame_numbers(left);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(left).get(root) || is_left(root, *path)) std::abort();
  if (shadow::redact(left, std::span(&*path, 1)) != left) std::abort();
}

void gather(std::string_view events) {
  constexpr std::size_t k_bytes_max = 100;
  const shadow::answer_gatherer::time_point at;
  shadow::answer_gatherer all(k_bytes_max), each(k_bytes_max);
  all.push(events, at);
  relay::event_splitter splitter;
  for (auto left = events; const auto bytes = splitter.next(left);) {
    each.push(left.substr(0, *bytes), at);
    left.remove_prefix(*bytes);
  }
  const auto& found = all.found();
  if (found.text != each.found().text || found.calls != each.found().calls) std::abort();
  std::size_t held = found.text.size();
  for (const auto& call : found.calls) held += call.name.size() + call.arguments.size();
  if (held > k_bytes_max || found.calls.size() > shadow::k_calls_max) std::abort();
  const auto alike = shadow::agree(found, found);
  if (!alike.exact || alike.overlap != 1 || alike.json == policy_likeness::different ||
      alike.tools == policy_likeness::different) {
    std::abort();
  }
}

void compare_halves(std::string_view text) {
  const auto half = std::min(text.find('\n'), text.size());
  const auto a = text.substr(0, half);
  const auto b = text.substr(std::min(half + 1, text.size()));
  if (shadow::compare_json(a, b) != shadow::compare_json(b, a)) std::abort();
  const double overlap = weir::policy::comparison::word_overlap(a, b);
  if (overlap != weir::policy::comparison::word_overlap(b, a) || overlap < 0 || overlap > 1) std::abort();
}

void read_page(std::string_view text) {
  const auto page = shadow::read_page_of_pairs(text);
  if (!page) return;
  std::string data;
  for (const auto& pair : page->pairs) data += (data.empty() ? "" : ",") + shadow::to_json(pair);
  const auto again = shadow::read_page_of_pairs(R"({"data":[)" + data + R"(],"next":null})");
  if (!again || again->pairs != page->pairs) std::abort();
  const auto all = shadow::compare_all(page->pairs);
  shadow::to_json(all);
  if (shadow::to_html(all).find("<script") != std::string::npos) std::abort();
  for (const auto& one : all) shadow::to_text(one);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0: {
      const auto line = std::min(rest.find('\n'), rest.size());
      cut(rest.substr(0, line), std::string(rest.substr(std::min(line + 1, rest.size()))));
      break;
    }
    case 1:
      gather(rest);
      break;
    case 2:
      compare_halves(rest);
      break;
    default:
      read_page(rest);
  }
  return 0;
}
