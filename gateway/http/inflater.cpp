#include "gateway/http/inflater.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace weir::gateway::http {

namespace {

constexpr int k_window_bits_any = 15 + 32;  // zlib's own code for: gzip or zlib, told by the header
constexpr std::size_t k_step_bytes = 16 << 10;

}  // namespace

struct inflater::state {
  z_stream stream{};
  bool finished = false;
  bool failed = false;
};

inflater::inflater() : state_(std::make_unique<state>()) {
  if (inflateInit2(&state_->stream, k_window_bits_any) != Z_OK) throw std::bad_alloc();
}

inflater::~inflater() {
  inflateEnd(&state_->stream);
}

bool inflater::finished() const noexcept {
  return state_->finished;
}

bool inflater::inflate(std::string_view in, std::string& out, std::size_t bytes_max) {
  auto& [stream, finished, failed] = *state_;
  failed = failed || in.size() > std::numeric_limits<uInt>::max();
  if (failed) return false;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));  // zlib only reads it
  stream.avail_in = static_cast<uInt>(in.size());
  bool more = !in.empty();
  while (more) {
    const std::size_t before = out.size();
    failed = finished || before > bytes_max;
    if (failed) return false;
    // One byte beyond the bound tells an output that passes it from one that fills it.
    const std::size_t room = std::min(k_step_bytes, bytes_max - before) + 1;
    out.resize(before + room);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    out.resize(before + room - stream.avail_out);
    finished = status == Z_STREAM_END;
    failed = (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) || out.size() > bytes_max;
    if (failed) return false;
    more = stream.avail_in > 0 || (stream.avail_out == 0 && !finished);
  }
  return true;
}

}  // namespace weir::gateway::http
