// A blocking TLS client and certificates made on the spot, for tests of TLS listeners.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/http/tls_context.hpp"

namespace weir::gateway::http::testing {

// A temporary folder with a self-signed certificate for `name` and its key; removed with the object.
class test_certificate final {
 public:
  explicit test_certificate(const std::string& name);
  ~test_certificate();
  test_certificate(const test_certificate&) = delete;
  test_certificate& operator=(const test_certificate&) = delete;

  const tls_files& files() const noexcept { return files_; }
  void renew(const std::string& name) const;  // overwrites both files

 private:
  std::string folder_;
  tls_files files_;
};

class tls_client final {
 public:
  // Offers up to `version_max` (0: the newest). connected() tells whether the handshake succeeded.
  explicit tls_client(std::uint16_t port, int version_max = 0, std::string_view alpn = "http/1.1");
  ~tls_client();
  tls_client(const tls_client&) = delete;
  tls_client& operator=(const tls_client&) = delete;

  bool connected() const noexcept;
  std::string version() const;
  std::string peer_name() const;  // common name of the server's certificate
  std::string protocol() const;   // by ALPN

  void send(std::string_view bytes);
  std::string read_until(std::string_view end);  // as far as it came
  bool wait_close_notify();                      // true: an orderly end

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace weir::gateway::http::testing
