#include "tests/gateway/http/tls_client.hpp"

#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

namespace weir::gateway::http::testing {
namespace {

template <auto F>
struct freed {
  template <class T>
  void operator()(T* p) const {
    F(p);
  }
};
using key_ptr = std::unique_ptr<EVP_PKEY, freed<EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, freed<X509_free>>;
using file_ptr = std::unique_ptr<std::FILE, freed<std::fclose>>;

}  // namespace

test_certificate::test_certificate(const std::string& name) {
  std::string path = (std::filesystem::temp_directory_path() / "weir-tls-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = path;
  files_ = {folder_ + "/cert.pem", folder_ + "/key.pem"};
  renew(name);
}

test_certificate::~test_certificate() {
  std::filesystem::remove_all(folder_);
}

void test_certificate::renew(const std::string& name) const {
  const key_ptr key(EVP_EC_gen("P-256"));
  const certificate_ptr certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  const auto* text = reinterpret_cast<const unsigned char*>(name.c_str());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  const file_ptr certificate_file(std::fopen(files_.certificate_chain.c_str(), "w"));
  PEM_write_X509(certificate_file.get(), certificate.get());
  const file_ptr key_file(std::fopen(files_.private_key.c_str(), "w"));
  PEM_write_PrivateKey(key_file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
}

struct tls_client::state {
  std::unique_ptr<SSL_CTX, freed<SSL_CTX_free>> context{SSL_CTX_new(TLS_client_method())};
  std::unique_ptr<SSL, freed<SSL_free>> ssl;
  int socket = -1;
  bool connected = false;
  std::string buffer;
};

tls_client::tls_client(std::uint16_t port, int version_max, std::string_view alpn)
    : state_(std::make_unique<state>()) {
  state& s = *state_;
  s.socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(s.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("cannot connect");
  }
  const timeval patience{20, 0};
  ::setsockopt(s.socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  // Security level 0 lets OpenSSL 3 offer TLS 1.1 at all.
  SSL_CTX_set_cipher_list(s.context.get(), "DEFAULT:@SECLEVEL=0");
  SSL_CTX_set_min_proto_version(s.context.get(), 0);
  SSL_CTX_set_max_proto_version(s.context.get(), version_max);
  s.ssl.reset(SSL_new(s.context.get()));
  std::string offer(1, static_cast<char>(alpn.size()));
  offer += alpn;
  const auto* offered = reinterpret_cast<const unsigned char*>(offer.data());
  if (!alpn.empty()) SSL_set_alpn_protos(s.ssl.get(), offered, static_cast<unsigned>(offer.size()));
  SSL_set_fd(s.ssl.get(), s.socket);
  s.connected = SSL_connect(s.ssl.get()) == 1;
  ERR_clear_error();
}

tls_client::~tls_client() {
  ::close(state_->socket);
}

bool tls_client::connected() const noexcept {
  return state_->connected;
}
std::string tls_client::version() const {
  return SSL_get_version(state_->ssl.get());
}

std::string tls_client::peer_name() const {
  const certificate_ptr certificate(SSL_get1_peer_certificate(state_->ssl.get()));
  std::array<char, 64> text{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, text.data(),
                            text.size());
  return text.data();
}

std::string tls_client::protocol() const {
  const unsigned char* name = nullptr;
  unsigned length = 0;
  SSL_get0_alpn_selected(state_->ssl.get(), &name, &length);
  return {reinterpret_cast<const char*>(name), length};
}

void tls_client::send(std::string_view bytes) {
  SSL_write(state_->ssl.get(), bytes.data(), static_cast<int>(bytes.size()));
}

std::string tls_client::read_until(std::string_view end) {
  std::string& buffer = state_->buffer;
  std::array<char, 16384> chunk{};
  while (buffer.find(end) == std::string::npos) {
    const int got = SSL_read(state_->ssl.get(), chunk.data(), static_cast<int>(chunk.size()));
    if (got <= 0) break;
    buffer.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return std::exchange(buffer, {});
}

bool tls_client::wait_close_notify() {
  char byte = 0;
  const int got = SSL_read(state_->ssl.get(), &byte, 1);
  return got <= 0 && SSL_get_error(state_->ssl.get(), got) == SSL_ERROR_ZERO_RETURN;
}

}  // namespace weir::gateway::http::testing
