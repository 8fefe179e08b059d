// The body of one upstream reply, by its framing. Its size has no limit here: a stream may run for hours.
// Sans-IO: takes bytes in any segmentation. Threads: one owner.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/http/chunked_decoder.hpp"
#include "gateway/http/reply_parser.hpp"

namespace weir::gateway::http {

class reply_body final {
 public:
  reply_body(reply_framing framing, std::uint64_t content_length) noexcept;

  // Takes input up to the next piece of data, the end or a fault. Bytes behind the end are not taken.
  chunk_step decode(std::string_view input);

  // Whether a connection that ends now has ended the body in order.
  bool ends_at_eof() const noexcept { return done_ || framing_ == reply_framing::to_close; }

 private:
  reply_framing framing_;
  std::uint64_t left_bytes_;  // of a sized body
  bool done_;
  chunked_decoder chunks_;
};

}  // namespace weir::gateway::http
