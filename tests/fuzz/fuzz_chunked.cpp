// The chunked decoder on arbitrary bytes: no fault, the same verdict and body whole and in two parts, never
// over the limit.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/chunked_decoder.hpp"

using namespace weir::gateway::http;

namespace {

constexpr std::uint64_t k_limit_bytes = 4096;

struct outcome {
  chunk_step::kind last = chunk_step::kind::need_more;
  std::string body;
  std::size_t consumed = 0;
};

outcome run(std::string_view bytes, std::size_t cut) {
  chunked_decoder decoder(k_limit_bytes);
  outcome out;
  for (std::size_t end : {cut, bytes.size()}) {
    do {
      const chunk_step step = decoder.decode(bytes.substr(out.consumed, end - out.consumed));
      out.last = step.what;
      out.consumed += step.consumed;
      out.body += step.data;
    } while (out.last == chunk_step::kind::data);
    if (out.last != chunk_step::kind::need_more) break;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t cut = static_cast<std::size_t>(data[0] * 256 + data[1]) % (size - 1);
  const std::vector<char> bytes(data + 2, data + size);
  const std::string_view all(bytes.data(), bytes.size());
  const outcome whole = run(all, all.size());
  const outcome split = run(all, cut);
  if (whole.last != split.last || whole.body != split.body || whole.consumed != split.consumed) std::abort();
  if (whole.body.size() > k_limit_bytes) std::abort();
  return 0;
}
