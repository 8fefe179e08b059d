// Operator rules: what a request is decides which targets may serve it and under which terms. All rules that
// match apply, in the order written; a later one overrides terms of an earlier one, exclusions add up.
// Checked when the configuration is read, evaluated without side effects. Immutable; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/score.hpp"

namespace weir::policy {

// What rules look at.
struct rule_subject {
  std::string_view model;
  std::string_view tenant;
  std::string_view key;
  std::int64_t prompt_tokens = 0;
  bool has_tools = false;
  bool has_images = false;
  bool local_only = false;
};

// Every condition that is set must hold.
struct rule_match {
  std::vector<std::string> models;
  std::vector<std::string> tenants;
  std::vector<std::string> keys;
  std::int64_t prompt_tokens_min = 0;
  std::int64_t prompt_tokens_max = 0;  // 0 = no bound
  std::optional<bool> tools;
  std::optional<bool> images;
  std::optional<bool> local_only;

  friend bool operator==(const rule_match&, const rule_match&) = default;
};

struct rule {
  std::string name;
  rule_match when;
  std::vector<std::string> allow;   // only these targets; empty: no restriction
  std::vector<std::string> forbid;  // not these
  double ttft_s = 0;                // contract; 0 = as before
  double itl_s = 0;
  double cost_max_usd = 0;

  friend bool operator==(const rule&, const rule&) = default;
};

bool matches(const rule_match& when, const rule_subject& subject) noexcept;

// Marks in `excluded` (one per name) the targets that matching rules exclude and sets the terms that they
// name. Gives the name of the last rule that excluded something, or nothing.
std::string_view apply_rules(std::span<const rule> rules, const rule_subject& subject,
                             std::span<const std::string_view> names, std::span<bool> excluded, scoring& how);

}  // namespace weir::policy
