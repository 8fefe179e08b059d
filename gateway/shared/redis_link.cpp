#include <fcntl.h>
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "gateway/shared/store_link.hpp"

namespace weir::gateway::shared {

namespace {

constexpr std::size_t k_read_bytes = 16 * 1024;
constexpr int k_depth_max = 4;  // of lists in lists

template <auto f>
struct freer {
  void operator()(auto* p) const { f(p); }
};
using ssl_context = std::unique_ptr<SSL_CTX, freer<SSL_CTX_free>>;
using ssl_session = std::unique_ptr<SSL, freer<SSL_free>>;
using reply_reader = std::unique_ptr<redisReader, freer<redisReaderFree>>;

class socket_handle {
 public:
  explicit socket_handle(int fd) : fd_(fd) {}
  ~socket_handle() {
    if (fd_ >= 0) ::close(fd_);
  }
  socket_handle(socket_handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  socket_handle(const socket_handle&) = delete;
  socket_handle& operator=(const socket_handle&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// How long to wait, and what for besides.
struct patience {
  link_time deadline;
  const std::atomic<bool>& given_up;
};

// Whether the socket is ready before the deadline.
bool await(int fd, short events, const patience& most) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(most.deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd one{.fd = fd, .events = events, .revents = 0};
    const int got = ::poll(&one, 1, static_cast<int>(std::min(left, k_given_up_wait).count()));
    if (got > 0) return true;
    if (got < 0 && errno != EINTR) return false;
    if (most.given_up.load(std::memory_order_relaxed)) return false;
  }
}

std::expected<socket_handle, std::string> connect_to(const addrinfo& at, const patience& most) {
  socket_handle s(::socket(at.ai_family, at.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at.ai_protocol));
  if (s.get() < 0) return std::unexpected(std::strerror(errno));
  if (::connect(s.get(), at.ai_addr, at.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return std::unexpected(std::strerror(errno));
    if (!await(s.get(), POLLOUT, most)) return std::unexpected("no connection in time");
    int why = 0;
    socklen_t size = sizeof why;
    ::getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &why, &size);
    if (why != 0) return std::unexpected(std::strerror(why));
  }
  const int on = 1;
  ::setsockopt(s.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return s;
}

std::expected<socket_handle, std::string> connect_to(const store_address& where, const patience& most) {
  const addrinfo hints{.ai_flags = AI_ADDRCONFIG, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const auto port = std::to_string(where.port);
  if (const int why = ::getaddrinfo(where.host.c_str(), port.c_str(), &hints, &found); why != 0) {
    return std::unexpected(::gai_strerror(why));
  }
  const std::unique_ptr<addrinfo, freer<freeaddrinfo>> all(found);
  std::string why = "no address";
  for (const auto* at = all.get(); at != nullptr; at = at->ai_next) {
    auto s = connect_to(*at, most);
    if (s) return s;
    why = std::move(s.error());
  }
  return std::unexpected(std::move(why));
}

std::expected<ssl_context, std::string> context_of(const store_address& where) {
  ssl_context context(SSL_CTX_new(TLS_client_method()));
  if (!context) return std::unexpected("no TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const bool trusted = where.ca_file.empty()
                           ? SSL_CTX_set_default_verify_paths(context.get()) == 1
                           : SSL_CTX_load_verify_file(context.get(), where.ca_file.c_str()) == 1;
  if (!trusted) return std::unexpected("redis.ca_file cannot be read as PEM");
  return context;
}

bool expect_host(SSL* ssl, const std::string& host) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1) return true;
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set_tlsext_host_name(ssl, host.c_str()) == 1 && SSL_set1_host(ssl, host.c_str()) == 1;
}

// hiredis makes our values by these functions, so that what a server only announces is not allocated. A list
// under way is the last element of its parent, which grows only once it is complete. Null is an error.
void* keep(const redisReadTask* task, store_value value) {
  if (task->parent == nullptr) return new store_value(std::move(value));
  return &static_cast<store_value*>(task->parent->obj)->list.emplace_back(std::move(value));
}

int depth_of(const redisReadTask* task) {
  int depth = 0;
  for (const auto* at = task->parent; at != nullptr; at = at->parent) ++depth;
  return depth;
}

redisReplyObjectFunctions value_functions() {
  using kind = store_value::kind;
  redisReplyObjectFunctions make{};
  make.createString = [](const redisReadTask* task, char* bytes, auto size) {
    const auto is = task->type == REDIS_REPLY_ERROR ? kind::error : kind::text;
    return keep(task, {.is = is, .text = std::string(bytes, size)});
  };
  make.createArray = [](const redisReadTask* task, auto count) -> void* {
    if (static_cast<std::size_t>(count) > k_reply_elements_max || depth_of(task) >= k_depth_max)
      return nullptr;
    return keep(task, {.is = kind::list});
  };
  make.createInteger = [](const redisReadTask* task, long long number) {
    return keep(task, {.is = kind::integer, .integer = number});
  };
  make.createNil = [](const redisReadTask* task) { return keep(task, {}); };
  make.freeObject = [](void* value) { delete static_cast<store_value*>(value); };
  return make;
}

redisReader* make_reader() {
  static auto functions = value_functions();
  return redisReaderCreateWithFunctions(&functions);
}

class redis_link final : public store_link {
 public:
  redis_link(socket_handle s, const std::atomic<bool>& given_up)
      : socket_(std::move(s)), given_up_(given_up), reader_(make_reader()) {}

  std::expected<void, std::string> shake_hands(const store_address& where, const patience& most) {
    auto context = context_of(where);
    if (!context) return std::unexpected(std::move(context.error()));
    context_ = std::move(*context);
    ssl_.reset(SSL_new(context_.get()));
    if (!ssl_ || SSL_set_fd(ssl_.get(), socket_.get()) != 1 || !expect_host(ssl_.get(), where.host)) {
      return std::unexpected("no TLS");
    }
    for (;;) {
      ERR_clear_error();
      const int got = SSL_connect(ssl_.get());
      if (got == 1) return {};
      if (await_tls(got, most)) continue;
      const long verdict = SSL_get_verify_result(ssl_.get());
      if (verdict == X509_V_OK) return std::unexpected("no TLS handshake in time");
      return std::unexpected(
          fmt::format("its certificate was refused: {}", X509_verify_cert_error_string(verdict)));
    }
  }

  std::expected<std::vector<store_value>, std::string> exchange(
      std::span<const std::vector<std::string>> commands, link_time deadline) override {
    std::string out;
    for (const auto& command : commands) append(out, command);
    const patience most{deadline, given_up_};
    if (!write_all(out, most)) return std::unexpected("takes no commands in time");
    std::vector<store_value> replies;
    std::size_t bytes = 0;  // of the reply that comes in
    while (replies.size() < commands.size()) {
      void* got = nullptr;
      if (redisReaderGetReply(reader_.get(), &got) != REDIS_OK) {
        return std::unexpected("does not speak its protocol");
      }
      if (got != nullptr) {
        const std::unique_ptr<store_value> reply(static_cast<store_value*>(got));
        replies.push_back(std::move(*reply));
        bytes = 0;
        continue;
      }
      std::array<char, k_read_bytes> block;
      const auto count = read_some(block, most);
      bytes += count > 0 ? static_cast<std::size_t>(count) : 0;
      if (count == 0) return std::unexpected("closed the connection");
      if (count < 0) return std::unexpected("does not answer in time");
      if (bytes > k_reply_bytes_max) return std::unexpected("answers with too much");
      redisReaderFeed(reader_.get(), block.data(), static_cast<std::size_t>(count));
    }
    return replies;
  }

 private:
  static void append(std::string& out, const std::vector<std::string>& command) {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const auto& a : command) {
      texts.push_back(a.data());
      sizes.push_back(a.size());
    }
    char* bytes = nullptr;
    const auto size =
        redisFormatCommandArgv(&bytes, static_cast<int>(command.size()), texts.data(), sizes.data());
    if (size > 0) out.append(bytes, static_cast<std::size_t>(size));
    redisFreeCommand(bytes);
  }

  bool await_tls(int outcome, const patience& most) {
    const int why = SSL_get_error(ssl_.get(), outcome);
    if (why == SSL_ERROR_WANT_READ) return await(socket_.get(), POLLIN, most);
    if (why == SSL_ERROR_WANT_WRITE) return await(socket_.get(), POLLOUT, most);
    return false;
  }

  bool write_all(std::string_view bytes, const patience& most) {
    while (!bytes.empty()) {
      std::size_t count = 0;
      if (ssl_) {
        ERR_clear_error();
        const int done = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
        if (done != 1 && !await_tls(done, most)) return false;
      } else {
        const auto done = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (done < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (done < 0 && !await(socket_.get(), POLLOUT, most)) return false;
        count = done < 0 ? 0 : static_cast<std::size_t>(done);
      }
      bytes.remove_prefix(count);
    }
    return true;
  }

  // 0: the end; below 0: no bytes in time.
  std::ptrdiff_t read_some(std::span<char> into, const patience& most) {
    for (;;) {
      if (ssl_) {
        std::size_t count = 0;
        ERR_clear_error();
        const int done = SSL_read_ex(ssl_.get(), into.data(), into.size(), &count);
        if (done == 1) return static_cast<std::ptrdiff_t>(count);
        const int why = SSL_get_error(ssl_.get(), done);
        if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return 0;
        if (!await_tls(done, most)) return -1;
      } else {
        const auto count = ::recv(socket_.get(), into.data(), into.size(), 0);
        if (count >= 0) return count;
        if (errno != EAGAIN && errno != EINTR) return 0;
        if (!await(socket_.get(), POLLIN, most)) return -1;
      }
    }
  }

  socket_handle socket_;
  const std::atomic<bool>& given_up_;
  ssl_context context_;
  ssl_session ssl_;
  reply_reader reader_;
};

}  // namespace

std::expected<std::unique_ptr<store_link>, std::string> store_link::dial(const store_address& where,
                                                                         link_time deadline,
                                                                         const std::atomic<bool>& given_up) {
  const patience most{deadline, given_up};
  auto s = connect_to(where, most);
  if (!s) return std::unexpected(std::move(s.error()));
  auto link = std::make_unique<redis_link>(std::move(*s), given_up);
  if (where.tls) {
    if (auto done = link->shake_hands(where, most); !done) return std::unexpected(std::move(done.error()));
  }
  return link;
}

}  // namespace weir::gateway::shared
