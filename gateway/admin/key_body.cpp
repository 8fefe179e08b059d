#include "gateway/admin/key_body.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "gateway/api/json.hpp"
#include "gateway/auth/key_text.hpp"
#include "policy/limits/gcra.hpp"

namespace weir::gateway::admin {

namespace {

using api::field_reader;
using simdjson::dom::element;
using simdjson::dom::object;

void only(object from, field_reader& in, std::initializer_list<std::string_view> known) {
  for (const auto field : from) {
    if (std::find(known.begin(), known.end(), field.key) != known.end()) continue;
    std::string names;
    for (const auto name : known) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    return in.fail(api::excerpt(field.key),
                   names.empty() ? "is not known here; nothing is" : "is not known here; known are " + names);
  }
}

// The field as it stands there, null included.
std::optional<element> find(object from, std::string_view key) {
  element value;
  if (from.at_key(key).get(value)) return std::nullopt;
  return value;
}

void read_limit(object from, field_reader& in, std::string_view key, std::int64_t max,
                std::optional<std::int64_t>& out) {
  const auto value = find(from, key);
  if (!value) return;
  out = 0;
  in.integer(key, out, {1, max});
}

void read_budget(object from, field_reader& in, std::string_view key, std::optional<auth::usd_nano>& out) {
  const auto value = find(from, key);
  if (!value) return;
  out = 0;
  if (value->is_null()) return;
  double usd = 0;
  const bool number = !value->get(usd) && usd > 0 && usd <= auth::k_usd_limit_max;
  out = number ? auth::to_usd_nano(usd) : 0;
  if (*out == 0) {
    in.fail(key, fmt::format("must be a number of dollars above 0, at most {:.0f}; null for no budget",
                             auth::k_usd_limit_max));
  }
}

void read_limits(object from, field_reader& in, terms_change& out) {
  const auto value = find(from, "limits");
  if (!value) return;
  if (value->is_null()) {
    out.requests_per_min = out.tokens_per_min = out.concurrent = out.usd_per_day = out.usd_per_month = 0;
    return;
  }
  const auto limits = in.object("limits");
  if (!limits) return;
  field_reader inner(*limits, "limits");
  only(*limits, inner, {"requests_per_min", "tokens_per_min", "concurrent", "usd_per_day", "usd_per_month"});
  read_limit(*limits, inner, "requests_per_min", policy::limits::k_rate_max, out.requests_per_min);
  read_limit(*limits, inner, "tokens_per_min", policy::limits::k_rate_max, out.tokens_per_min);
  read_limit(*limits, inner, "concurrent", auth::k_concurrent_max, out.concurrent);
  read_budget(*limits, inner, "usd_per_day", out.usd_per_day);
  read_budget(*limits, inner, "usd_per_month", out.usd_per_month);
  in.adopt(inner);
}

void read_models(object from, field_reader& in, const model_check& is_model, terms_change& out) {
  const auto value = find(from, "models");
  if (!value) return;
  out.models.emplace();
  const auto list = in.array("models");
  if (!list) return;
  if (list->size() > k_models_max) return in.fail("models", fmt::format("may hold at most {}", k_models_max));
  for (const auto entry : *list) {
    std::string_view name;
    if (entry.get(name)) return in.fail("models", "must be an array of strings");
    if (!is_model(name)) {
      return in.fail("models",
                     fmt::format("has '{}', which is no model here; an alias is none", api::excerpt(name)));
    }
    out.models->emplace_back(name);
  }
}

template <class Enum>
void read_word(object from, field_reader& in, std::string_view key, std::string_view words,
               std::optional<Enum> (*convert)(std::string_view) noexcept, std::optional<Enum>& out) {
  const auto value = find(from, key);
  if (!value) return;
  out = Enum{};
  if constexpr (std::is_same_v<Enum, auth::priority_class>) out = Enum::normal;
  if (value->is_null()) return;
  std::string_view text;
  const auto word = value->get(text) ? std::nullopt : convert(text);
  if (!word) return in.fail(key, fmt::format("must be one of {}", words));
  out = word;
}

void read_terms(object from, field_reader& in, const model_check& is_model, terms_change& out) {
  read_models(from, in, is_model, out);
  read_limits(from, in, out);
  read_word(from, in, "residency", "any, local_only", &auth::to_residency, out.residency);
  read_word(from, in, "priority", "batch, low, normal, high", &auth::to_priority, out.priority);
  read_word(from, in, "sharing", "as_configured, tenant, key, site", &auth::to_key_sharing, out.sharing);
  if (!find(from, "shadow")) return;
  bool shadow = false;
  in.flag("shadow", shadow);
  out.shadow = shadow;
}

void read_name(field_reader& in, std::string_view key, std::string& out) {
  in.text(key, out);
  if (const auto wrong = auth::fault_of_name(out); !wrong.empty()) in.fail(key, std::string(wrong));
}

// Parses, reads with `read`, and says what was at fault first.
template <class T, class Read>
result<T> read_body(const std::string& body, Read read) {
  const auto document = api::json_document::parse(body);
  if (!document) return std::unexpected(document.error());
  field_reader in(document->root());
  T out{};
  read(document->root(), in, out);
  if (!in.ok()) return std::unexpected(*in.first_error());
  return out;
}

}  // namespace

void terms_change::apply(auth::key_terms& to) const {
  to.models = models.value_or(to.models);
  auto& limits = to.limits;
  limits.requests_per_min = requests_per_min.value_or(limits.requests_per_min);
  limits.tokens_per_min = tokens_per_min.value_or(limits.tokens_per_min);
  limits.concurrent = concurrent.value_or(limits.concurrent);
  limits.usd_per_day = usd_per_day.value_or(limits.usd_per_day);
  limits.usd_per_month = usd_per_month.value_or(limits.usd_per_month);
  to.residency = residency.value_or(to.residency);
  to.priority = priority.value_or(to.priority);
  to.sharing = sharing.value_or(to.sharing);
  to.shadow = shadow.value_or(to.shadow);
}

result<new_key> read_new_key(const std::string& body, const model_check& is_model) {
  return read_body<new_key>(body, [&](object from, field_reader& in, new_key& out) {
    only(from, in, {"name", "tenant", "models", "limits", "residency", "priority", "sharing", "shadow"});
    read_name(in, "name", out.name);
    read_name(in, "tenant", out.tenant);
    read_terms(from, in, is_model, out.terms);
  });
}

result<terms_change> read_terms_change(const std::string& body, const model_check& is_model) {
  return read_body<terms_change>(body, [&](object from, field_reader& in, terms_change& out) {
    only(from, in, {"models", "limits", "residency", "priority", "sharing", "shadow"});
    read_terms(from, in, is_model, out);
  });
}

result<std::int64_t> read_grace_s(const std::string& body) {
  if (body.empty()) return 0;
  return read_body<std::int64_t>(body, [](object from, field_reader& in, std::int64_t& out) {
    only(from, in, {"grace_s"});
    std::optional<std::int64_t> grace_s;
    in.integer("grace_s", grace_s, {0, k_grace_max_s});
    out = grace_s.value_or(0);
  });
}

result<std::int64_t> read_weight(const std::string& body) {
  return read_body<std::int64_t>(body, [](object from, field_reader& in, std::int64_t& out) {
    only(from, in, {"weight"});
    std::optional<std::int64_t> weight;
    in.integer("weight", weight, {1, auth::k_weight_max});
    if (!weight) in.fail("weight", "is required: the tenant's share, 1 or more");
    out = weight.value_or(1);
  });
}

result<void> read_nothing(const std::string& body) {
  if (body.empty()) return {};
  const auto read = read_body<bool>(body, [](object from, field_reader& in, bool&) { only(from, in, {}); });
  if (!read) return std::unexpected(read.error());
  return {};
}

}  // namespace weir::gateway::admin
