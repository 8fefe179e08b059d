// The server's TLS settings from files: TLS 1.2 and later, HTTP/1.1 by ALPN, no renegotiation.
#pragma once

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <expected>
#include <memory>
#include <string>

namespace weir::gateway::http {

struct tls_files {
  std::string certificate_chain;  // PEM, leaf first
  std::string private_key;        // PEM
};

// Keys of session tickets: the contexts of all I/O threads share them, so that a client may resume on any
// thread.
using ticket_keys = std::array<unsigned char, 80>;
ticket_keys make_ticket_keys();  // random

// One context per I/O thread keeps OpenSSL's locks uncontended. The error names the file and OpenSSL's
// reason.
std::expected<std::shared_ptr<boost::asio::ssl::context>, std::string> make_tls_context(
    const tls_files& files, const ticket_keys& keys);

}  // namespace weir::gateway::http
