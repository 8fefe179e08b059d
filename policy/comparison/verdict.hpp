// The report in words: which side is cheaper, faster and more reliable, by how much, and how sure that is, so
// that it can be understood without the figures behind it. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "policy/comparison/comparison.hpp"

namespace weir::policy::comparison {

enum class winner : std::uint8_t { none, primary, shadow };

// Five questions are asked of the same pairs: at 99% each, all answers together are right at 95%.
enum class sureness : std::uint8_t {
  unknown,  // the 95% interval allows for either side, or there is nothing to compare
  likely,   // it does not; that of 99% does
  sure,     // nor does that of 99%
};

struct finding {
  std::string question;  // "Cheaper"
  winner who = winner::none;
  sureness how = sureness::unknown;
  std::string words;  // the answer, one or two sentences
};

// In this order: cheaper, faster to the first token, between tokens and to the end, the slowest requests,
// more reliable; then how alike the answers are, where nobody wins.
std::vector<finding> verdict(const report& of);

// "likely", "sure"; empty for unknown.
std::string_view to_text(sureness how) noexcept;

}  // namespace weir::policy::comparison
