// Every limit of the HTTP edge, with its reason. What an operator may set is in http_settings with these
// values as defaults; the rest belongs to the wire profile and is fixed, so that two gateways never disagree
// on what a request is.
#pragma once

#include <chrono>
#include <cstddef>

namespace weir::gateway::http {

// Head. 32 KiB and 100 fields hold any SDK's head with a margin of ten; counted over the whole head, empty
// lines included.
inline constexpr std::size_t k_head_bytes_max = 32 * 1024;
inline constexpr std::size_t k_head_fields_max = 100;
inline constexpr std::size_t k_target_bytes_max = 8000;  // RFC 9112 section 3 asks for at least 8000
inline constexpr std::size_t k_method_bytes_max = 32;    // the longest registered method has 17
inline constexpr std::size_t k_request_line_bytes_max =
    k_method_bytes_max + k_target_bytes_max + 10;            // SP, SP, HTTP/1.1
inline constexpr std::size_t k_leading_empty_lines_max = 2;  // RFC 9112 section 2.2 asks for at least one
inline constexpr std::size_t k_host_bytes_max = 255 + 6;     // a DNS name and ":65535"
inline constexpr std::size_t k_request_id_bytes_max = 128;

// Reply heads of upstreams. Larger than ours: hosted APIs send many fields of their own.
inline constexpr std::size_t k_reply_head_bytes_max = 64 * 1024;
inline constexpr std::size_t k_reply_fields_max = 200;
inline constexpr std::size_t k_interim_replies_max = 8;  // 1xx before the final head

// Chunked body. Extensions and trailers carry nothing that we use: room for what is seen in practice, none
// for floods.
inline constexpr std::size_t k_chunk_size_digits_max = 16;              // a 64-bit size; more is padding
inline constexpr std::size_t k_chunk_extension_bytes_max = 256;         // of one chunk
inline constexpr std::size_t k_chunk_extensions_bytes_max = 16 * 1024;  // of one body
inline constexpr std::size_t k_trailer_bytes_max = 8 * 1024;

// Buffers. One connection reads into one buffer: small while idle or streaming, larger while a head or a body
// comes in.
inline constexpr std::size_t k_idle_buffer_bytes = 4 * 1024;  // 10,000 idle connections hold 40 MB
inline constexpr std::size_t k_head_buffer_bytes = k_head_bytes_max + k_idle_buffer_bytes;
inline constexpr std::size_t k_reply_head_buffer_bytes = k_reply_head_bytes_max + k_idle_buffer_bytes;
inline constexpr std::size_t k_body_buffer_bytes = 64 * 1024;      // what one read call returns at most
inline constexpr std::size_t k_spare_buffers_max = 16;             // of these, per thread
inline constexpr std::size_t k_body_growth_bytes_min = 16 * 1024;  // first allocation of a body string
inline constexpr std::size_t k_large_body_bytes = 256 * 1024;      // grows in fewer steps from here
inline constexpr std::size_t k_body_slack_bytes =
    64;  // behind a body, so that a parser may read past its end
inline constexpr std::size_t k_pipeline_depth_max = 16;
// Bytes read ahead while a handler runs: sixteen heads of usual size. A full buffer stops reading until the
// reply is out.
inline constexpr std::size_t k_read_ahead_bytes_max = 16 * 1024;
inline constexpr std::size_t k_coalesced_bytes_max =
    16 * 1024;  // one TLS record; larger bodies are written from their place

// Closing. Reading on for a while after our FIN keeps a reset from overtaking the error reply (RFC 9112
// section 9.6).
inline constexpr std::size_t k_linger_bytes_max =
    64 * 1024 * 1024;  // a whole refused upload of the default limit
inline constexpr std::size_t k_drained_body_bytes_max =
    64 * 1024;  // unread body worth reading to keep a connection
inline constexpr std::size_t k_linger_read_bytes = 16 * 1024;

// Accepting.
inline constexpr int k_listen_backlog = 4096;
inline constexpr std::chrono::milliseconds k_accept_backoff{100};  // out of descriptors: neither spin nor die
// Of listeners that outlive a drain, besides those of clients: whoever fills the API's does not shut out
// metrics, probes and the revocation of keys.
inline constexpr std::size_t k_admin_connections_max = 256;
// 503s over the connection cap that linger until they are read, per I/O thread.
inline constexpr std::size_t k_refusals_max = 64;
inline constexpr std::chrono::milliseconds k_drain_first_byte{
    200};                                                     // a first request under way when a drain begins
inline constexpr std::chrono::milliseconds k_cut_wait{2000};  // for cancelled exchanges to unwind in stop()

// A peer that answers while we still write to it.
inline constexpr std::chrono::milliseconds k_early_reply_wait{200};

static_assert(k_request_line_bytes_max < k_head_bytes_max, "a longest request line leaves room for fields");
static_assert(k_host_bytes_max < k_head_bytes_max);
static_assert(k_chunk_extension_bytes_max <= k_chunk_extensions_bytes_max);
static_assert(k_trailer_bytes_max <= k_head_bytes_max, "a trailer is never larger than a head");
static_assert(k_head_buffer_bytes >= k_head_bytes_max,
              "a legal head fits its buffer, so the parser decides, not the buffer");
static_assert(k_idle_buffer_bytes <= k_read_ahead_bytes_max && k_read_ahead_bytes_max <= k_head_buffer_bytes);
static_assert(k_drained_body_bytes_max <= k_linger_bytes_max);
static_assert(k_read_ahead_bytes_max / k_pipeline_depth_max >= 1024,
              "sixteen ordinary heads fit the read-ahead");
static_assert(k_chunk_size_digits_max == 16, "a size fits std::uint64_t");

// What an operator may set, per listener. Milliseconds, bytes.
struct http_settings {
  using ms = std::chrono::milliseconds;
  ms head_timeout{10'000};     // whole head, from its first byte (from accept for the first head): slow heads
  ms keep_alive_idle{75'000};  // between requests; longer than the pools of common clients
  ms handshake_timeout{5'000};  // TLS
  ms body_idle{30'000};         // no body byte for so long: 408
  ms body_grace{30'000};        // from then on the mean rate must reach body_rate_min
  std::size_t body_rate_min =
      1024;               // bytes/s: a slow body holds its budget no longer than body_grace + size / rate
  ms write_idle{60'000};  // a client that reads nothing for so long is gone
  ms linger{5'000};       // reading on after an early close
  ms shutdown_timeout{1'000};                     // for the peer's close_notify
  std::size_t requests_per_connection = 100'000;  // lets load move to other gateways in the end
  bool half_close_aborts = true;  // a client's FIN while its reply is pending counts as a disconnect
};

// What an operator may set, per process.
inline constexpr std::size_t k_body_bytes_max_default = std::size_t{64} << 20;
inline constexpr std::size_t k_body_budget_bytes_default = std::size_t{1} << 30;
// Below half of a 20,000-descriptor limit: each proxied stream needs a second descriptor.
inline constexpr std::size_t k_connections_max_default = 9'500;
static_assert(k_body_bytes_max_default <= k_body_budget_bytes_default);
static_assert(2 * k_connections_max_default < 20'000);

}  // namespace weir::gateway::http
