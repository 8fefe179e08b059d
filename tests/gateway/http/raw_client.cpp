#include "tests/gateway/http/raw_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <stdexcept>
#include <utility>

namespace weir::gateway::http::testing {
namespace {

constexpr int k_patience_ms = 20'000;  // a server that is silent for so long has failed the test

}  // namespace

raw_client::raw_client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("cannot connect");
  }
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

raw_client::~raw_client() {
  if (socket_ >= 0) ::close(socket_);
}

void raw_client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void raw_client::send_bytewise(std::string_view bytes) {
  for (char c : bytes) {
    if (::send(socket_, &c, 1, MSG_NOSIGNAL) != 1) return;
  }
}

void raw_client::half_close() {
  ::shutdown(socket_, SHUT_WR);
}

void raw_client::reset() {
  const linger abrupt{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &abrupt, sizeof abrupt);
  ::close(std::exchange(socket_, -1));
}

bool raw_client::fill() {
  pollfd waiting{socket_, POLLIN, 0};
  if (::poll(&waiting, 1, k_patience_ms) != 1) throw std::runtime_error("the server is silent");
  std::array<char, 65536> chunk{};
  const ssize_t got = ::recv(socket_, chunk.data(), chunk.size(), 0);
  if (got <= 0) return false;
  buffer_.append(chunk.data(), static_cast<std::size_t>(got));
  return true;
}

bool raw_client::fill_to(std::size_t bytes) {
  while (buffer_.size() < bytes) {
    if (!fill()) return false;
  }
  return true;
}

std::string raw_client::read_some() {
  if (buffer_.empty()) fill();
  return std::exchange(buffer_, {});
}

bool raw_client::wait_closed() {
  while (buffer_.empty()) {
    if (!fill()) return true;
  }
  return false;
}

std::optional<response> raw_client::read_response(bool head_only) {
  std::size_t end = std::string::npos;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return std::nullopt;
  }
  const std::string head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  response out;
  if (!head.starts_with("HTTP/1.1 ")) throw std::runtime_error("not a response: " + head);
  out.status = std::stoi(head.substr(9, 3));
  if (out.status < 200) {
    ++interim_count_;
    return read_response(head_only);
  }
  for (std::size_t at = head.find("\r\n") + 2; at < head.size(); at = head.find("\r\n", at) + 2) {
    const std::string line = head.substr(at, head.find("\r\n", at) - at);
    const std::size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    out.headers[name] = line.substr(colon + 2);
  }
  if (head_only || out.status == 204 || out.status == 304) return out;
  if (out.headers.contains("transfer-encoding")) {
    out.complete = read_chunked(out);
  } else if (out.headers.contains("content-length")) {
    const std::size_t length = std::stoul(out.headers["content-length"]);
    out.complete = fill_to(length);
    out.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
  } else {
    while (fill()) continue;
    out.body = std::exchange(buffer_, {});
  }
  return out;
}

bool raw_client::read_chunked(response& out) {
  while (true) {
    std::size_t line = std::string::npos;
    while ((line = buffer_.find("\r\n")) == std::string::npos) {
      if (!fill()) return false;
    }
    const std::size_t size = std::stoul(buffer_.substr(0, line), nullptr, 16);
    if (!fill_to(line + 2 + size + 2)) return false;
    out.body += buffer_.substr(line + 2, size);
    buffer_.erase(0, line + 2 + size + 2);
    if (size == 0) return true;
  }
}

}  // namespace weir::gateway::http::testing
