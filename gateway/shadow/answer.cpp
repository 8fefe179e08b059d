#include "gateway/shadow/answer.hpp"

#include <simdjson.h>

#include <algorithm>
#include <limits>

#include "gateway/relay/event_splitter.hpp"

namespace weir::gateway::shadow {

namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::string_view k_data = "data:";

simdjson::dom::parser& parser() {
  thread_local simdjson::dom::parser one;
  return one;
}

// The data of an event, its lines joined.
std::string data_of(std::string_view event) {
  std::string out;
  while (!event.empty()) {
    const auto end = relay::find_line_end(event, 0);
    auto line = event.substr(0, end);
    event.remove_prefix(std::min(event.size(), end + 1));
    if (!line.starts_with(k_data)) continue;
    line.remove_prefix(k_data.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (!out.empty()) out += '\n';
    out += line;
  }
  return out;
}

std::string_view text_of(const object& of, std::string_view key) {
  std::string_view out;
  return of[key].get(out) ? std::string_view() : out;
}

}  // namespace

std::string_view first_bytes(std::string_view text, std::size_t bytes_max) noexcept {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xc0) == 0x80) --bytes_max;
  return text.substr(0, bytes_max);
}

void answer_gatherer::add(std::string& to, std::string_view more) {
  const auto kept = first_bytes(more, bytes_left_);
  to.append(kept);
  bytes_left_ -= kept.size();
  if (kept.size() == more.size()) return;
  found_.cut = true;
  bytes_left_ = 0;
}

tool_call* answer_gatherer::call_at(std::size_t index) {
  if (index >= k_calls_max) {
    found_.cut = true;
    return nullptr;
  }
  if (index >= found_.calls.size()) found_.calls.resize(index + 1);
  return &found_.calls[index];
}

template <class Array>
void answer_gatherer::read_calls(const Array& calls) {
  std::size_t place = 0;
  for (const auto& one : calls) {
    object call, function;
    if (one.get(call)) continue;
    std::uint64_t index = place++;
    if (call["index"].get(index)) index = place - 1;
    auto* const into = call_at(static_cast<std::size_t>(index));
    if (into == nullptr || call["function"].get(function)) continue;
    add(into->name, text_of(function, "name"));
    add(into->arguments, text_of(function, "arguments"));
  }
}

// Of a delta, a message or a choice of the completions API: whether a client would show something of it.
template <class Object>
bool answer_gatherer::read_content(const Object& of) {
  bool any = false;
  for (const auto key : {"content", "text", "refusal"}) {
    const auto more = text_of(of, key);
    any = any || !more.empty();
    add(found_.text, more);
  }
  for (const auto key : {"reasoning_content", "reasoning"}) any = any || !text_of(of, key).empty();
  array calls;
  if (of["tool_calls"].get(calls)) return any;
  read_calls(calls);
  return any || calls.size() > 0;
}

void answer_gatherer::push_event(std::string_view event, time_point at) {
  const auto data = data_of(event);
  element root;
  array choices;
  if (data.empty() || parser().parse(data).get(root) || root["choices"].get(choices)) return;
  bool any = false;
  for (const auto one : choices) {
    object choice, delta;
    std::int64_t index = 0;
    if (one.get(choice)) continue;
    if (!choice["index"].get(index) && index != 0) continue;
    if (choice["delta"].get(delta)) delta = choice;
    any = read_content(delta) || any;
  }
  if (!any) return;
  if (events_++ == 0) {
    first_ = at;
  } else if (at != last_ && pauses_us_.size() < k_pauses_max) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(at - last_).count();
    constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
    pauses_us_.push_back(static_cast<std::uint32_t>(std::clamp<std::int64_t>(us, 0, most)));
  }
  last_ = at;
}

void answer_gatherer::push(std::string_view events, time_point at) {
  relay::event_splitter splitter;
  while (const auto bytes = splitter.next(events)) {
    push_event(events.substr(0, *bytes), at);
    events.remove_prefix(*bytes);
  }
}

void answer_gatherer::push_whole(std::string_view body) {
  element root;
  array choices;
  if (parser().parse(body.data(), body.size()).get(root) || root["choices"].get(choices)) return;
  for (const auto one : choices) {
    object choice, message;
    std::int64_t index = 0;
    if (one.get(choice)) continue;
    if (!choice["index"].get(index) && index != 0) continue;
    if (choice["message"].get(message)) message = choice;
    read_content(message);
  }
}

std::int64_t answer_gatherer::median_pause_ns() const {
  if (pauses_us_.empty()) return -1;
  auto pauses = pauses_us_;
  const auto middle = pauses.begin() + static_cast<std::ptrdiff_t>((pauses.size() - 1) / 2);
  std::nth_element(pauses.begin(), middle, pauses.end());
  constexpr std::int64_t k_ns_per_us = 1000;
  return std::int64_t{*middle} * k_ns_per_us;
}

}  // namespace weir::gateway::shadow
