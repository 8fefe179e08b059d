// Cuts generated text at the first of several stop strings, holding back any tail that may still become one.
// First is the one that is complete first; of several complete at the same byte, the longest. So the cut
// depends on the text alone, never on how it was divided into pushes. Each byte costs amortised constant time
// per stop string. One sequence, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weir::engine::text {

class stop_matcher final {
 public:
  // REQUIRES: no stop string is empty.
  explicit stop_matcher(std::vector<std::string> stops);

  // Text that may be shown now. After a match it is the text before the stop string and stopped() is true.
  std::string push(std::string_view text);

  // The held-back tail, when generation ended otherwise or something else than text follows; matching starts
  // anew.
  std::string finish();

  bool stopped() const noexcept { return stopped_; }

 private:
  struct pattern {
    std::string text;
    std::vector<std::size_t> borders;  // [bytes] longest proper border of each prefix (Knuth, Morris, Pratt)
    std::size_t matched;               // bytes of `text` that the text so far ends with
  };

  std::vector<pattern> patterns_;
  std::string held_;  // the longest tail that begins a stop string
  bool stopped_ = false;
};

}  // namespace weir::engine::text
