// A cost comparison as it is shown: in the terminal, as JSON, and as one HTML file that needs nothing else.
// All three say the same numbers. Texts of the inputs file are made harmless in each. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "gateway/costs/words.hpp"
#include "policy/economics/compare.hpp"

namespace weir::gateway::costs {

struct report {
  std::string source;  // the file
  policy::economics::inputs in;
  policy::economics::outcome out;
  std::string live;                // where --live took inputs from; empty: it did not
  std::vector<std::string> taken;  // what it took
};

// `lines`: of the plot and everything else; ends with a line feed.
std::string to_text(const report&);
std::string to_json(const report&);
std::string to_html(const report&);

// Rows of the cost table: what, ours, theirs; "-" where there is none.
struct amount_row {
  std::string label;
  std::string own;
  std::string api;
};
std::vector<amount_row> amount_rows(const policy::economics::outcome&);

// What the report says besides, in order: the three terms and what belongs to them.
struct section {
  std::string title;
  std::vector<line> lines;
};
std::vector<section> sections(const report&);

// Cost of an accepted result by load, drawn in characters.
std::string text_chart(const report&);

}  // namespace weir::gateway::costs
