#include "gateway/http/tls_context.hpp"

#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <stdexcept>

namespace weir::gateway::http {
namespace {

namespace ssl = boost::asio::ssl;

constexpr unsigned char k_http_1_1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_bytes, const unsigned char* offered,
                    unsigned int offered_bytes, void*) {
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_bytes, k_http_1_1, sizeof k_http_1_1, offered, offered_bytes);
  if (found != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

ticket_keys make_ticket_keys() {
  ticket_keys keys{};
  if (RAND_bytes(keys.data(), static_cast<int>(keys.size())) != 1)
    throw std::runtime_error("no random bytes");
  return keys;
}

std::expected<std::shared_ptr<ssl::context>, std::string> make_tls_context(const tls_files& files,
                                                                           const ticket_keys& keys) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  boost::system::error_code ec;
  context->use_certificate_chain_file(files.certificate_chain, ec);
  if (ec) return std::unexpected("TLS certificate " + files.certificate_chain + ": " + ec.message());
  context->use_private_key_file(files.private_key, ssl::context::pem, ec);
  if (ec) return std::unexpected("TLS private key " + files.private_key + ": " + ec.message());
  SSL_CTX* native = context->native_handle();
  if (SSL_CTX_check_private_key(native) != 1) {
    return std::unexpected("TLS private key " + files.private_key + " does not match " +
                           files.certificate_chain);
  }
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native,
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_cipher_list(native, "ECDHE+AESGCM:ECDHE+CHACHA20");
  SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  ticket_keys copy = keys;
  SSL_CTX_set_tlsext_ticket_keys(native, copy.data(), static_cast<long>(copy.size()));
  return context;
}

}  // namespace weir::gateway::http
