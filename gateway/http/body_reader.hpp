// Reads one request body off a connection: framing, route limit, byte budget, 100 Continue, stall and rate
// deadlines. Invariants: never takes a byte behind the body's end; a failure is final and leaves the
// connection without framing, so the connection must close then. Threads: the connection's I/O thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gateway/errc.hpp"
#include "gateway/http/byte_budget.hpp"
#include "gateway/http/chunked_decoder.hpp"
#include "gateway/http/connection.hpp"
#include "gateway/http/head_parser.hpp"

namespace weir::gateway::http {

struct body_announcement {
  body_framing framing = body_framing::none;
  std::uint64_t content_length = 0;
  bool expect_continue = false;
};

class body_reader final {
 public:
  body_reader(connection& link, const http_settings& settings, byte_budget& budget,
              body_announcement announced);

  // Fails as exchange::read_body does; client_gone where the peer closed within the body.
  task<result<std::string>> read(std::size_t limit_bytes);

  bool complete() const noexcept { return complete_; }
  // Whether what is unread is small and surely coming: worth reading to keep the connection.
  bool drainable() const noexcept;
  task<bool> drain();  // REQUIRES: drainable

 private:
  using clock = connection::clock;

  task<result<std::string>> read_sized(std::size_t limit_bytes);
  task<result<std::string>> read_chunked(std::size_t limit_bytes);
  task<result<void>> more();
  task<bool> send_continue();
  result<void> append(std::string& body, std::string_view bytes, std::uint64_t final_bytes_max);

  connection& link_;
  const http_settings& settings_;
  budget_hold hold_;
  body_announcement announced_;
  std::uint64_t left_bytes_;  // of a sized body
  std::uint64_t received_bytes_ = 0;
  clock::time_point begin_{};
  bool complete_;
  bool failed_ = false;
};

}  // namespace weir::gateway::http
