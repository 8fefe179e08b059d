#include "gateway/http/reply_body.hpp"

#include <algorithm>
#include <limits>

namespace weir::gateway::http {

reply_body::reply_body(reply_framing framing, std::uint64_t content_length) noexcept
    : framing_(framing),
      left_bytes_(content_length),
      done_(framing == reply_framing::none ||
            (framing == reply_framing::content_length && content_length == 0)),
      chunks_(std::numeric_limits<std::int64_t>::max()) {}

chunk_step reply_body::decode(std::string_view input) {
  using kind = chunk_step::kind;
  if (done_) return {kind::done, 0, {}};
  if (framing_ == reply_framing::chunked) {
    const chunk_step step = chunks_.decode(input);
    done_ = step.what == kind::done;
    return step;
  }
  if (input.empty()) return {kind::need_more, 0, {}};
  if (framing_ == reply_framing::to_close) return {kind::data, input.size(), input};
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left_bytes_, input.size()));
  left_bytes_ -= bytes;
  done_ = left_bytes_ == 0;
  return {kind::data, bytes, input.substr(0, bytes)};
}

}  // namespace weir::gateway::http
