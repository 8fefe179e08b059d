#include "loadtest/mock/connection.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>

namespace weir::loadtest::mock {

namespace {

namespace asio = boost::asio;

constexpr std::size_t k_pending_bytes_max = 1 << 20;  // pipelined; more stays in the socket
constexpr std::size_t k_out_kept_bytes_max = 4 << 10;

}  // namespace

connection::connection(worker& owner, tcp_socket socket)
    : owner_(owner), socket_(std::move(socket)), last_answer_(clock::now()) {}

void connection::start() {
  boost::system::error_code error;
  socket_.non_blocking(true, error);
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  owner_.count().connections.add(1);
  owner_.count().connections_open.add(1);
  place_ = owner_.enter(*this);
  watch();
}

void connection::end_idle(clock::time_point now) {
  if (lingering_ || (!exchange_ && !reader_.started() && pending_.empty())) {
    close(last_act::close);
    return;
  }
  last_answer_ = now;
  owner_.touch(place_);
}

void connection::watch() {
  if (watching_ || !open_ || pending_.size() >= k_pending_bytes_max) return;
  watching_ = true;
  socket_.async_wait(tcp_socket::wait_read, [self = shared_from_this()](boost::system::error_code error) {
    self->watching_ = false;
    if (self->open_) self->on_readable(error);
  });
}

void connection::on_readable(boost::system::error_code error) {
  auto& scratch = owner_.scratch();
  std::size_t size = 0;
  if (!error) size = socket_.read_some(asio::buffer(scratch), error);
  if (error && error != asio::error::would_block && error != asio::error::try_again) {
    gone();
    return;
  }
  if (size > 0 && !lingering_) feed({scratch.data(), size});
  watch();
}

// Bytes of a request under way are answered at once; bytes behind it wait for its answer.
void connection::feed(std::string_view bytes) {
  if (exchange_) {
    keep_for_later(bytes);
    return;
  }
  feeding_ = true;
  while (!bytes.empty() && open_ && !exchange_ && !lingering_) {
    bytes.remove_prefix(reader_.take(bytes));
    if (reader_.malformed()) {
      refuse_malformed();
    } else if (reader_.complete()) {
      begin(reader_.current());
    } else if (reader_.take_expectation()) {
      out_ += "HTTP/1.1 100 Continue\r\n\r\n";
      flush();
    }
  }
  feeding_ = false;
  if (open_ && !lingering_) keep_for_later(bytes);
}

void connection::keep_for_later(std::string_view bytes) {
  pending_ += bytes;
}

void connection::refuse_malformed() {
  owner_.count().malformed.add(1);
  exchange_ = std::make_unique<exchange>();
  exchange_->then = last_act::linger;
  answer(reader_.status(), "application/json",
         error_body(reader_.status(), "BadRequestError", std::string("malformed HTTP: ") + reader_.reason()),
         "connection: close\r\n");
}

void connection::advance() {
  while (open_ && exchange_ && flush() && step()) {
  }
}

bool connection::step() {
  if (exchange_->waiting) return false;
  switch (exchange_->at) {
    case stage::first_token:
      return first_token();
    case stage::tokens:
      return tokens();
    case stage::ending:
      return finish();
    case stage::stalled:
      return false;
  }
  return false;
}

// Waits are added up from the first one, so that a late timer delays one token and not all.
void connection::wait_for(double milliseconds) {
  auto& x = *exchange_;
  const auto now = clock::now();
  if (x.due == clock::time_point{}) x.due = now;
  x.due += owner_.wait(milliseconds);
  if (x.due <= now) return;
  if (!x.pace) x.pace.emplace(owner_.io().get_executor());
  x.waiting = true;
  x.pace->expires_at(x.due);
  x.pace->async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->resume();
  });
}

void connection::yield() {
  exchange_->waiting = true;
  asio::post(owner_.io(), [self = shared_from_this()] { self->resume(); });
}

void connection::resume() {
  if (!open_ || !exchange_) return;
  exchange_->waiting = false;
  advance();
}

// Whether all that is written so far is sent; else the rest follows when the socket takes more.
bool connection::flush() {
  boost::system::error_code error;
  while (sent_ < out_.size()) {
    sent_ += socket_.write_some(asio::buffer(out_.data() + sent_, out_.size() - sent_), error);
    if (!error) continue;
    if (error != asio::error::would_block && error != asio::error::try_again) {
      gone();
      return false;
    }
    if (write_waiting_) return false;
    write_waiting_ = true;
    socket_.async_wait(tcp_socket::wait_write, [self = shared_from_this()](boost::system::error_code) {
      self->write_waiting_ = false;
      if (self->open_) self->advance();
    });
    return false;
  }
  sent_ = 0;
  out_.clear();
  if (out_.capacity() > k_out_kept_bytes_max) out_.shrink_to_fit();
  return true;
}

// The answer is sent: the connection closes or goes on with what it has been sent meanwhile.
bool connection::finish() {
  auto& count = owner_.count();
  if (exchange_->writer) {
    const auto& writer = *exchange_->writer;
    if (exchange_->wrong == fault::none)
      (writer.cut_by_length() ? count.success_length : count.success_stop).add(1);
    count.generation_tokens.add(writer.token_count());
    count.running.add(-1);
    count.tokens_in_use.add(-writer.ask().prompt_tokens - writer.token_count());
  }
  const auto then = exchange_->then;
  exchange_.reset();
  reader_.reset();
  last_answer_ = clock::now();
  owner_.touch(place_);
  if (then == last_act::linger) {
    boost::system::error_code error;
    socket_.shutdown(tcp_socket::shutdown_send, error);
    lingering_ = true;
    watch();
  } else if (then != last_act::keep) {
    close(then);
  } else if (!feeding_ && !pending_.empty()) {
    const auto bytes = std::move(pending_);
    pending_.clear();
    feed(bytes);
    watch();
  }
  return false;
}

void connection::gone() {
  if (exchange_) owner_.count().aborted.add(1);
  close(last_act::close);
}

void connection::close(last_act how) {
  if (!open_) return;
  open_ = false;
  if (exchange_) exchange_->place.reset();
  auto& count = owner_.count();
  if (exchange_ && exchange_->writer) {
    count.running.add(-1);
    count.tokens_in_use.add(-exchange_->writer->ask().prompt_tokens - exchange_->writer->token_count());
  }
  count.connections_open.add(-1);
  owner_.leave(place_);
  boost::system::error_code error;
  if (how == last_act::reset) socket_.set_option(asio::socket_base::linger(true, 0), error);
  socket_.close(error);
  if (exchange_ && exchange_->pace) exchange_->pace->cancel();
}

}  // namespace weir::loadtest::mock
