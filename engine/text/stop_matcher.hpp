// Cuts generated text at the first of several stop strings, holding back any tail that may still become one.
// One sequence, one thread.
#pragma once

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

  // The held-back tail, when generation ended otherwise.
  std::string finish();

  bool stopped() const noexcept { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace weir::engine::text
