// One client connection of the mock: reads requests, answers them in order, notices when the client goes
// away. Callbacks on its worker's thread; the handlers in flight own it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "loadtest/mock/answer_writer.hpp"
#include "loadtest/mock/request_reader.hpp"
#include "loadtest/mock/worker.hpp"

namespace weir::loadtest::mock {

class connection final : public std::enable_shared_from_this<connection> {
 public:
  connection(worker& owner, tcp_socket socket);

  void start();
  clock::time_point last_answer() const noexcept { return last_answer_; }

  // Closes the connection when it is idle, else counts it as used at `now`.
  void end_idle(clock::time_point now);

 private:
  enum class stage : std::uint8_t {
    first_token,  // waits for it or writes what comes before and with it; to tokens, ending, stalled
    tokens,       // to ending, stalled
    ending,       // writes what is left, then does `then`
    stalled,      // left only by the client
  };
  enum class last_act : std::uint8_t { keep, linger, close, reset };

  struct exchange {
    std::optional<answer_writer> writer;  // absent for what is no completion
    std::optional<replica::place> place;  // where a replica stands behind the mock
    std::optional<timer> pace;
    clock::time_point due;
    std::int64_t next_token = 0;
    fault wrong = fault::none;
    stage at = stage::first_token;
    last_act then = last_act::keep;
    bool is_prefilled = false;
    bool waiting = false;               // for the timer, its next turn or a place
    std::string_view close_field = {};  // says that the connection ends, where the client asked for it
  };

  void watch();
  void on_readable(boost::system::error_code error);
  void feed(std::string_view bytes);
  void keep_for_later(std::string_view bytes);

  void begin(const request& asked);
  void route(const request& asked);
  void begin_completion(const request& asked, bool chat);
  void begin_answer(completion_ask ask);
  void enter_queue(prompt asked);
  void prefill_started(const replica::prefill& plan);
  bool end_prefill();
  void count_prompt();
  bool begin_status_fault();
  void answer(int status, std::string_view type, std::string_view body, std::string_view extra_fields = {});
  void refuse_malformed();
  bool is_operator_route(std::string_view path, std::string_view method) const;
  void operate(std::string_view path);

  void advance();
  bool step();  // false: something is waited for
  bool first_token();
  bool tokens();
  bool deviate_mid_stream();
  void end_stream();
  void whole_answer();
  void wait_for(double milliseconds);
  void yield();
  void resume();
  bool flush();
  bool finish();

  void gone();
  void close(last_act how);

  worker& owner_;
  tcp_socket socket_;
  worker::idle_place place_;
  clock::time_point last_answer_;
  request_reader reader_;
  std::string pending_;  // bytes of later requests
  std::string out_;
  std::size_t sent_ = 0;  // of out_
  std::unique_ptr<exchange> exchange_;
  bool open_ = true;
  bool watching_ = false;       // a read wait is in flight
  bool write_waiting_ = false;  // a write wait is in flight
  bool feeding_ = false;
  bool lingering_ = false;  // all is said; what still comes is dropped
};

}  // namespace weir::loadtest::mock
