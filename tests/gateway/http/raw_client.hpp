// A blocking client that sends exactly the bytes it is given, for tests of what servers do with them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace weir::gateway::http::testing {

struct response {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool complete = true;  // false: the connection ended within
};

class raw_client final {
 public:
  explicit raw_client(std::uint16_t port);  // connects to 127.0.0.1; throws where it cannot
  ~raw_client();
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;

  void send(std::string_view bytes);           // all of it, as far as the peer takes it
  void send_bytewise(std::string_view bytes);  // one segment per byte, until the peer closes
  void half_close();
  void reset();  // closes with a reset

  // The next response, whatever interim ones (1xx) precede it counted; nothing where the connection ends
  // first. `head` tells that no body follows.
  std::optional<response> read_response(bool head_only = false);
  int interim_count() const noexcept { return interim_count_; }
  bool wait_closed();       // true: the peer closed without another byte
  std::string read_some();  // at least one byte, or empty at the end

 private:
  bool fill();  // false: end or nothing for 10 s
  bool fill_to(std::size_t bytes);
  bool read_chunked(response& out);

  int socket_ = -1;
  std::string buffer_;
  int interim_count_ = 0;
};

}  // namespace weir::gateway::http::testing
