// What a gateway's /metrics tell of its routing, as far as a live replay needs them. Values; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace weir::loadtest::replay {

struct gateway_numbers {
  bool routes = false;  // has the families of a gateway that predicts reuse
  double prompt_tokens = 0;
  double predicted_tokens = 0;
  double error_tokens = 0;                  // the sum of |predicted - reported|
  std::map<std::string, double> answers;    // by target
  std::map<double, double> decisions_upto;  // decisions that took at most so many seconds, cumulative

  double answers_in_all() const;
  // The time below which this share of the decisions stayed, linear within a bucket, in seconds. 0 without
  // any; the last finite bound where it is beyond it.
  double decision_s(double share) const;
};

// Of a page in Prometheus' text format; lines that are something else are passed over.
gateway_numbers read_numbers(std::string_view page);

// What was added since `before`.
gateway_numbers since(const gateway_numbers& after, const gateway_numbers& before);

}  // namespace weir::loadtest::replay
