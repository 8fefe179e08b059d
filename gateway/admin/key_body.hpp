// The bodies of the admin API: strict JSON to plain values. A field that is not known is an error, as is one
// out of range; errors name the field. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/auth/key_terms.hpp"
#include "gateway/errc.hpp"

namespace weir::gateway::admin {

inline constexpr std::size_t k_body_bytes_max = std::size_t{512} << 10;
inline constexpr std::size_t k_models_max = 1024;  // of one key
inline constexpr std::int64_t k_grace_max_s = 30LL * 24 * 3600;

// What a body says of a key's terms. A field that is absent changes nothing, null takes it back to its
// default: no limit, all models.
struct terms_change {
  std::optional<std::vector<std::string>> models;
  std::optional<std::int64_t> requests_per_min, tokens_per_min, concurrent;  // 0: no limit
  std::optional<auth::usd_nano> usd_per_day, usd_per_month;
  std::optional<auth::residency> residency;
  std::optional<auth::priority_class> priority;
  std::optional<auth::key_sharing> sharing;
  std::optional<bool> shadow;

  void apply(auth::key_terms& to) const;
};

struct new_key {
  std::string name;
  std::string tenant = "default";
  terms_change terms;
};

// Whether a model of this name is served; what a key may use is checked with it.
using model_check = std::function<bool(std::string_view)>;

result<new_key> read_new_key(const std::string& body, const model_check& is_model);
result<terms_change> read_terms_change(const std::string& body, const model_check& is_model);
// {"grace_s": n}, or nothing: the old key stops at once.
result<std::int64_t> read_grace_s(const std::string& body);
result<std::int64_t> read_weight(const std::string& body);
// Of a change that takes no values: an empty body or {}.
result<void> read_nothing(const std::string& body);

}  // namespace weir::gateway::admin
