#include "engine/parallel/tcp_link.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

namespace weir::engine::parallel {

namespace {

constexpr std::uint32_t k_magic = 0x52524957;  // "WIRR"
constexpr std::chrono::milliseconds k_retry_interval{100};
constexpr int k_waiting_max = 128;
// A machine that is cut off is given up after some 20 s without an answer.
constexpr int k_probe_idle_s = 5;
constexpr int k_probe_interval_s = 5;
constexpr int k_probes = 3;
constexpr unsigned k_unanswered_ms = 20'000;

using addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

result<addresses> look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) return fail(errc::io, host + ": " + ::gai_strerror(code));
  return addresses(found, &freeaddrinfo);
}

template <class T>
void set(int fd, int level, int name, T value) {
  ::setsockopt(fd, level, name, &value, sizeof value);
}

int milliseconds_left(link_deadline by) {
  if (!by) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*by - link_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

bool wait_for(int fd, short events, link_deadline by) {
  pollfd one{fd, events, 0};
  for (;;) {
    const int ready = ::poll(&one, 1, milliseconds_left(by));
    if (ready > 0) return true;
    if (ready == 0 && by && link_clock::now() >= *by) return false;
  }
}

}  // namespace

tcp_link::tcp_link(int fd) noexcept : fd_(fd) {
  if (fd_ < 0) return;
  ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
  set(fd_, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd_, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd_, IPPROTO_TCP, TCP_KEEPIDLE, k_probe_idle_s);
  set(fd_, IPPROTO_TCP, TCP_KEEPINTVL, k_probe_interval_s);
  set(fd_, IPPROTO_TCP, TCP_KEEPCNT, k_probes);
  set(fd_, IPPROTO_TCP, TCP_USER_TIMEOUT, k_unanswered_ms);
}

tcp_link::~tcp_link() {
  if (fd_ >= 0) ::close(fd_);
}

tcp_link::tcp_link(tcp_link&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

tcp_link& tcp_link::operator=(tcp_link&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

result<tcp_link> tcp_link::dial(const std::string& host, std::uint16_t port,
                                link_clock::time_point deadline) {
  std::string last = "no address";
  do {
    const auto found = look_up(host, port, 0);
    if (!found) last = found.error().detail;
    for (const addrinfo* at = found ? found->get() : nullptr; at != nullptr; at = at->ai_next) {
      tcp_link out(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (out.fd_ < 0) continue;
      const int code = ::connect(out.fd_, at->ai_addr, at->ai_addrlen);
      if (code != 0 && errno != EINPROGRESS) {
        last = std::strerror(errno);
        continue;
      }
      if (!wait_for(out.fd_, POLLOUT, deadline)) break;
      int fault = 0;
      socklen_t size = sizeof fault;
      ::getsockopt(out.fd_, SOL_SOCKET, SO_ERROR, &fault, &size);
      if (fault == 0) return out;
      last = std::strerror(fault);
    }
    std::this_thread::sleep_for(k_retry_interval);
  } while (link_clock::now() < deadline);
  return fail(errc::io, host + ":" + std::to_string(port) + ": " + last);
}

std::optional<link_fault> tcp_link::wait(short events, link_deadline by) const {
  return wait_for(fd_, events, by) ? std::nullopt : std::optional(link_fault::late);
}

std::optional<link_fault> tcp_link::send(frame_head head, std::span<const std::byte> body, link_deadline by) {
  head.magic = k_magic;
  head.bytes = body.size();
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&head, 1)), body};
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const auto sent = ::send(fd_, part.data(), part.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        part = part.subspan(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN) {
        if (auto fault = wait(POLLOUT, by)) return fault;
      } else if (errno != EINTR) {
        return link_fault::ended;
      }
    }
  }
  return std::nullopt;
}

std::optional<link_fault> tcp_link::receive(frame_head& head, link_deadline by) {
  if (auto fault = receive(std::as_writable_bytes(std::span(&head, 1)), by)) return fault;
  return head.magic == k_magic ? std::nullopt : std::optional(link_fault::garbled);
}

std::optional<link_fault> tcp_link::receive(std::span<std::byte> body, link_deadline by) {
  while (!body.empty()) {
    const auto got = ::recv(fd_, body.data(), body.size(), 0);
    if (got > 0) {
      body = body.subspan(static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      if (auto fault = wait(POLLIN, by)) return fault;
    } else if (got == 0 || errno != EINTR) {
      return link_fault::ended;
    }
  }
  return std::nullopt;
}

bool tcp_link::has_ended() const noexcept {
  std::byte one{};
  const auto got = ::recv(fd_, &one, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

std::string readable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

tcp_gate::~tcp_gate() {
  if (fd_ >= 0) ::close(fd_);
}

tcp_gate::tcp_gate(tcp_gate&& other) noexcept : fd_(std::exchange(other.fd_, -1)), port_(other.port_) {}

result<tcp_gate> tcp_gate::open(const std::string& host, std::uint16_t port) {
  const auto found = look_up(host, port, AI_PASSIVE);
  if (!found) return std::unexpected(found.error());
  const addrinfo& at = **found;
  tcp_gate out(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), port);
  if (out.fd_ >= 0) set(out.fd_, SOL_SOCKET, SO_REUSEADDR, 1);
  if (out.fd_ < 0 || ::bind(out.fd_, at.ai_addr, at.ai_addrlen) != 0 ||
      ::listen(out.fd_, k_waiting_max) != 0) {
    return fail(errc::io, host + ":" + std::to_string(port) + ": " + std::strerror(errno));
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(out.fd_, reinterpret_cast<sockaddr*>(&bound), &size);
  out.port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                                : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return out;
}

std::optional<tcp_link> tcp_gate::accept(link_clock::time_point by) {
  for (;;) {
    if (!wait_for(fd_, POLLIN, by)) return std::nullopt;
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) return tcp_link(fd);
    if (link_clock::now() >= by) return std::nullopt;
    std::this_thread::sleep_for(k_retry_interval);  // no descriptor is free, or it has gone again
  }
}

}  // namespace weir::engine::parallel
