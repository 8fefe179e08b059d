#include "loadtest/bench/load.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <vector>

#include "loadtest/bench/process_usage.hpp"
#include "loadtest/bench/response_reader.hpp"

namespace weir::loadtest::bench {

namespace {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;
using executor = asio::io_context::executor_type;
using tcp_socket = asio::basic_stream_socket<asio::ip::tcp, executor>;
using timer = asio::basic_waitable_timer<clock, asio::wait_traits<clock>, executor>;

constexpr std::size_t k_scratch_bytes = 256 << 10;
constexpr std::int64_t k_failures_max = 100;  // then the load ends

class load;

// One connection: writes a request, reads its answer, and again.
class lane final {
 public:
  lane(load& owner, std::uint64_t seed);
  void connect();

 private:
  void ask();
  void write();
  void watch();
  void read();
  void take(std::string_view bytes);
  void complete();
  void reconnect(const char* failure);

  load& owner_;
  tcp_socket socket_;
  request_source source_;
  response_reader reader_;
  std::size_t sent_ = 0;
  clock::time_point asked_;
  clock::time_point last_event_;
  std::int64_t events_seen_ = 0;
};

class load final {
 public:
  load(const scenario& of, const load_target& at, const load_options& options)
      : of_(of), at_(at), options_(options), window_(io_.get_executor()) {
    for (int i = 0; i < of.connections; ++i)
      lanes_.push_back(std::make_unique<lane>(*this, static_cast<std::uint64_t>(i) + 1));
  }

  load_result run() {
    for (auto& one : lanes_) one->connect();
    window_.expires_after(of_.paced ? options_.paced_warm_up : options_.warm_up);
    window_.async_wait([this](boost::system::error_code) { start(); });
    io_.run();
    return std::move(result_);
  }

  void fail(std::string what) {
    if (result_.failures++ == 0) result_.failure = std::move(what);
    if (result_.failures >= k_failures_max) io_.stop();
  }

  const scenario& of_;
  const load_target& at_;
  const load_options& options_;
  bool measuring_ = false;
  load_result result_;
  std::array<char, k_scratch_bytes> scratch_{};
  asio::io_context io_{1};

 private:
  void start() {
    before_ = at_.pid > 0 ? read_usage(at_.pid) : process_usage{};
    started_ = clock::now();
    measuring_ = true;
    window_.expires_after(options_.measured);
    window_.async_wait([this](boost::system::error_code) { stop(); });
  }

  void stop() {
    result_.seconds = std::chrono::duration<double>(clock::now() - started_).count();
    if (at_.pid > 0) {
      const auto after = read_usage(at_.pid);
      result_.cpu_s = after.cpu_s - before_.cpu_s;
      result_.rss_bytes = after.rss_bytes;
    }
    io_.stop();
  }

  timer window_;
  std::vector<std::unique_ptr<lane>> lanes_;
  process_usage before_;
  clock::time_point started_;
};

lane::lane(load& owner, std::uint64_t seed)
    : owner_(owner),
      socket_(owner.io_.get_executor()),
      source_(owner.of_, owner.at_.endpoint.address().to_string(), owner.options_.model,
              owner.options_.api_key, seed) {}

void lane::connect() {
  socket_.async_connect(owner_.at_.endpoint, [this](boost::system::error_code error) {
    if (error) return owner_.fail("connect: " + error.message());
    socket_.non_blocking(true);
    socket_.set_option(asio::ip::tcp::no_delay(true));
    ask();
  });
}

void lane::reconnect(const char* failure) {
  if (failure != nullptr) owner_.fail(failure);
  boost::system::error_code ignored;
  socket_.close(ignored);
  socket_ = tcp_socket(owner_.io_.get_executor());
  reader_.reset();
  connect();
}

void lane::ask() {
  source_.vary();
  reader_.reset();
  sent_ = 0;
  events_seen_ = 0;
  asked_ = clock::now();
  write();
}

void lane::write() {
  const auto& bytes = source_.bytes();
  boost::system::error_code error;
  while (sent_ < bytes.size()) {
    sent_ += socket_.write_some(asio::buffer(bytes.data() + sent_, bytes.size() - sent_), error);
    if (error == asio::error::would_block || error == asio::error::try_again) {
      socket_.async_wait(tcp_socket::wait_write, [this](boost::system::error_code) { write(); });
      return;
    }
    if (error) return reconnect("the connection broke under a request");
  }
  watch();
}

void lane::watch() {
  socket_.async_wait(tcp_socket::wait_read, [this](boost::system::error_code) { read(); });
}

void lane::read() {
  boost::system::error_code error;
  const auto size = socket_.read_some(asio::buffer(owner_.scratch_), error);
  if (error == asio::error::would_block || error == asio::error::try_again) return watch();
  // A server may end an idle connection at any time: only within an answer is that a failure.
  if (error) return reconnect(reader_.started() ? "the connection ended within an answer" : nullptr);
  take({owner_.scratch_.data(), size});
}

void lane::take(std::string_view bytes) {
  bytes.remove_prefix(reader_.take(bytes));
  if (reader_.broken()) return reconnect("an answer is not HTTP/1.1");
  auto& result = owner_.result_;
  const auto fresh = reader_.events() - events_seen_;
  if (fresh > 0) {
    if (owner_.of_.paced) {
      const auto now = clock::now();
      if (events_seen_ > 0 && owner_.measuring_)
        result.times.add(std::chrono::duration<double>(now - last_event_).count());
      last_event_ = now;
    }
    events_seen_ = reader_.events();
    if (owner_.measuring_) result.events += fresh;
  }
  if (!reader_.complete()) return watch();
  if (!bytes.empty()) return reconnect("bytes behind an answer");
  complete();
}

void lane::complete() {
  auto& result = owner_.result_;
  if (reader_.status() != 200) {
    owner_.fail(fmt::format("status {}", reader_.status()));
  } else if (owner_.of_.stream && !reader_.ends_with_done()) {
    owner_.fail("a stream without [DONE] at its end");
  } else if (owner_.measuring_) {
    ++result.requests;
    if (!owner_.of_.paced) result.times.add(std::chrono::duration<double>(clock::now() - asked_).count());
  }
  if (reader_.closes()) return reconnect(nullptr);
  ask();
}

}  // namespace

load_result run_load(const scenario& of, const load_target& at, const load_options& options) {
  return load(of, at, options).run();
}

}  // namespace weir::loadtest::bench
