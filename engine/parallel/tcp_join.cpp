#include "engine/parallel/tcp_join.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace weir::engine::parallel {

namespace {

enum kind : std::uint32_t { k_hello = 1, k_welcome, k_refused };

constexpr std::size_t k_text_max = 256;
constexpr std::chrono::milliseconds k_look_interval{500};  // at those that have come
constexpr std::chrono::seconds k_hello_timeout{1};  // of who connected and says nothing: others wait for it

struct hello {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::array<char, 64> build{};
};

hello hello_of(const tcp_options& options) {
  hello out{options.rank, options.size, {}};
  options.build.copy(out.build.data(), out.build.size() - 1);
  return out;
}

std::string fault_of(const hello& from, const tcp_options& options,
                     const std::vector<std::optional<tcp_link>>& there) {
  const auto who = "rank " + std::to_string(from.rank) + " of " + std::to_string(from.size);
  if (from.build != hello_of(options).build) return who + " is another build of this program than rank 0";
  if (from.size != options.size) return who + " came to a world of " + std::to_string(options.size);
  if (from.rank < 1 || from.rank >= options.size) return who + " is none of those awaited";
  if (there[static_cast<std::size_t>(from.rank)]) return who + " is there already";
  return {};
}

void refuse(tcp_link& link, const std::string& why) {
  const auto text = std::string_view(why).substr(0, k_text_max);
  static_cast<void>(
      link.send({.kind = k_refused}, std::as_bytes(std::span(text)), link_clock::now() + k_hello_timeout));
}

// One connection: let in, refused, or none of ours. The sentence of a refusal ends the joining of all.
std::string let_in(tcp_link link, const tcp_options& options, std::vector<std::optional<tcp_link>>& there) {
  const auto by = link_clock::now() + k_hello_timeout;
  frame_head head;
  hello from;
  if (link.receive(head, by) || head.kind != k_hello || head.bytes != sizeof from) return {};
  if (link.receive(std::as_writable_bytes(std::span(&from, 1)), by)) return {};
  if (auto fault = fault_of(from, options, there); !fault.empty()) {
    refuse(link, fault);
    return fault;
  }
  there[static_cast<std::size_t>(from.rank)] = std::move(link);
  return {};
}

result<std::vector<tcp_link>> gather(const tcp_options& options) {
  auto gate = tcp_gate::open(options.host, options.port);
  if (!gate) return std::unexpected(gate.error());
  const auto by = link_clock::now() + options.join_timeout;
  std::vector<std::optional<tcp_link>> there(static_cast<std::size_t>(options.size));
  const auto missing = [&] {
    return std::find_if(there.begin() + 1, there.end(), [](const auto& link) { return !link; });
  };
  while (missing() != there.end()) {
    for (auto& link : there) {
      if (link && link->has_ended()) link.reset();  // it may be started again
    }
    std::optional<tcp_link> link;
    if (link_clock::now() < by) link = gate->accept(std::min(by, link_clock::now() + k_look_interval));
    if (!link && link_clock::now() < by) continue;
    if (!link) {
      return fail(errc::io, "rank " + std::to_string(missing() - there.begin()) + " did not come to " +
                                options.host + ":" + std::to_string(gate->port()) + " in time");
    }
    if (auto fault = let_in(std::move(*link), options, there); !fault.empty()) {
      for (auto& other : there) {
        if (other) refuse(*other, fault);
      }
      return fail(errc::bad_request, fault);
    }
  }
  std::vector<tcp_link> out;
  for (auto at = there.begin() + 1; at != there.end(); ++at) {
    static_cast<void>((*at)->send({.kind = k_welcome}, {}, by));
    out.push_back(std::move(**at));
  }
  return out;
}

result<std::vector<tcp_link>> come(const tcp_options& options) {
  const auto by = link_clock::now() + options.join_timeout;
  auto link = tcp_link::dial(options.host, options.port, by);
  if (!link) return fail(errc::io, "rank 0 cannot be reached: " + link.error().detail);
  const hello mine = hello_of(options);
  frame_head head;
  if (link->send({.kind = k_hello}, std::as_bytes(std::span(&mine, 1)), by) || link->receive(head, by)) {
    return fail(errc::io, "rank 0 at " + options.host + ":" + std::to_string(options.port) +
                              " ended the connection before all ranks had come");
  }
  if (head.kind == k_refused) {
    std::string why(std::min<std::uint64_t>(head.bytes, k_text_max), ' ');
    static_cast<void>(link->receive(std::as_writable_bytes(std::span(why)), by));
    return fail(errc::bad_request, readable(std::move(why)));
  }
  if (head.kind != k_welcome) return fail(errc::io, options.host + ": this is not rank 0 of a model");
  std::vector<tcp_link> out;
  out.push_back(std::move(*link));
  return out;
}

}  // namespace

result<std::vector<tcp_link>> join_links(const tcp_options& options) {
  return options.rank == 0 ? gather(options) : come(options);
}

}  // namespace weir::engine::parallel
