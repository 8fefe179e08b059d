#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gateway/ledger/byte_codec.hpp"
#include "gateway/ledger/record_tags.hpp"
#include "gateway/ledger/records.hpp"

namespace weir::gateway::ledger {

namespace {

std::string key_of(tag kind, std::string_view rest = {}) {
  std::string key(1, static_cast<char>(kind));
  return key.append(rest);
}

std::string numbered_key(tag kind, std::uint64_t number) {
  auto key = key_of(kind);
  append_ordered(key, number);
  return key;
}

std::string window_key(std::string_view account, window_unit unit, std::int32_t label) {
  auto key = key_of(tag::window);
  append_ordered(key, static_cast<std::uint16_t>(account.size()));
  key.append(account);
  key.push_back(static_cast<char>(unit));
  append_ordered(key, label);
  return key;
}

change sealed(std::string key, byte_writer& payload) {
  auto value = seal(key, payload.take());
  return {.key = std::move(key), .value = std::move(value)};
}

std::string_view text_of(const auth::digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

change of(const state_record& r) {
  byte_writer out;
  out.number(r.commit).number(r.next_id).number(r.settled).number(r.charged).number(r.voided);
  out.number(r.next_charge).number(r.spent).number(r.clock_s);
  return sealed(key_of(tag::state), out);
}

change of(const stored_account& r) {
  byte_writer out;
  out.number(r.record.reservations).number(r.record.ended).number(r.record.spent);
  return sealed(key_of(tag::account, r.account), out);
}

change of(const stored_window& r) {
  byte_writer out;
  out.number(r.spent);
  return sealed(window_key(r.account, r.unit, r.label), out);
}

change of(const stored_reservation& r) {
  byte_writer out;
  out.text(r.record.account).text(r.record.request_id).number(r.record.amount);
  out.number(r.record.day).number(r.record.month).number(r.record.reserved_at_s);
  return sealed(numbered_key(tag::reservation, r.id), out);
}

change of(const stored_charge& r) {
  byte_writer out;
  out.number(r.record.id).text(r.record.account).text(r.record.request_id).number(r.record.amount);
  out.number(r.record.reserved_at_s).number(r.record.charged_at_s);
  return sealed(numbered_key(tag::charge, r.place), out);
}

change of(const auth::key_record& r) {
  byte_writer out;
  out.text(r.name).text(r.tenant).bytes(text_of(r.digest)).flag(r.previous_digest.has_value());
  if (r.previous_digest) out.bytes(text_of(*r.previous_digest));
  out.number(r.previous_until_s).number(r.created_s).flag(r.revoked);
  out.number(static_cast<std::uint16_t>(r.terms.models.size()));
  for (const auto& model : r.terms.models) out.text(model);
  const auto& limits = r.terms.limits;
  out.number(limits.requests_per_min).number(limits.tokens_per_min).number(limits.concurrent);
  out.number(limits.usd_per_day).number(limits.usd_per_month);
  out.number(static_cast<std::uint8_t>(r.terms.residency));
  out.number(static_cast<std::uint8_t>(r.terms.priority));
  out.number(static_cast<std::uint8_t>(r.terms.sharing)).flag(r.terms.shadow);
  return sealed(key_of(tag::key, r.id), out);
}

change of(const auth::tenant_record& r) {
  byte_writer out;
  out.number(r.weight);
  return sealed(key_of(tag::tenant, r.name), out);
}

std::string traffic_key_bytes(const traffic_key& at) {
  auto key = key_of(tag::traffic);
  append_ordered(key, at.hour);
  append_ordered(key, static_cast<std::uint16_t>(at.model.size()));
  return key.append(at.model).append(at.target);
}

change of(const traffic_row& r) {
  const auto& c = r.counts;
  byte_writer out;
  out.flag(c.hosted).number(c.requests).number(c.accepted).number(c.failed).number(c.retried);
  out.number(c.local_only).number(c.prompt_tokens).number(c.known_tokens).number(c.cached_tokens);
  out.number(c.output_tokens).number(c.cost).number(c.first_s).number(c.last_s);
  return sealed(traffic_key_bytes(r.key), out);
}

// What is not known is 0, all else one more than it is.
std::int64_t one_more(std::int64_t known) {
  return known + 1;
}

void add_side(byte_writer& out, const policy::comparison::side& s) {
  out.text(s.target).number(static_cast<std::uint8_t>(s.end)).number(static_cast<std::uint16_t>(s.status));
  out.number(one_more(s.prompt_tokens)).number(one_more(s.cached_tokens)).number(one_more(s.output_tokens));
  out.number(s.price).flag(s.unpriced);
  out.number(one_more(s.ttft_ns)).number(one_more(s.itl_mean_ns)).number(one_more(s.itl_median_ns));
  out.number(one_more(s.end_to_end_ns)).text(s.excerpt);
}

change of(const stored_pair& r) {
  const auto& p = *r.record;
  byte_writer out;
  out.number(p.at_s).text(p.model).text(p.tenant).text(p.key).flag(p.streamed);
  add_side(out, p.primary);
  add_side(out, p.shadow);
  const auto& alike = p.alike;
  out.flag(alike.compared).flag(alike.cut).flag(alike.exact);
  out.number(static_cast<std::uint32_t>(std::llround(alike.overlap * k_overlap_one)));
  out.number(static_cast<std::uint8_t>(alike.json)).number(static_cast<std::uint8_t>(alike.tools));
  return sealed(numbered_key(tag::pair, r.place), out);
}

change erased(std::string key) {
  return {.key = std::move(key), .value = std::nullopt};
}

bool fits(const std::string& text, std::size_t bytes_min, std::size_t bytes_max) {
  return text.size() >= bytes_min && text.size() <= bytes_max;
}

// Of a time, a count or a sum of a pair.
bool fits(std::int64_t number, std::int64_t min) {
  return number >= min && number <= k_pair_number_max;
}

bool fits(const policy::comparison::side& s) {
  using policy::comparison::k_unknown;
  return fits(s.target, 1, k_text_bytes_max) && s.status >= 0 && s.status <= k_status_max &&
         fits(s.prompt_tokens, k_unknown) && fits(s.cached_tokens, k_unknown) &&
         fits(s.output_tokens, k_unknown) && fits(s.price, 0) && fits(s.ttft_ns, k_unknown) &&
         fits(s.itl_mean_ns, k_unknown) && fits(s.itl_median_ns, k_unknown) &&
         fits(s.end_to_end_ns, k_unknown) && fits(s.excerpt, 0, k_excerpt_bytes_max);
}

}  // namespace

std::string seal(std::string_view key, std::string_view payload) {
  byte_writer out;
  out.number(k_value_version).bytes(payload);
  auto value = out.take();
  const auto under_key = XXH3_64bits(key.data(), key.size());
  byte_writer sum;
  sum.number<std::uint64_t>(XXH3_64bits_withSeed(value.data(), value.size(), under_key));
  return value.append(sum.take());
}

change encode(const any_record& any) {
  return std::visit([](const auto& r) { return of(r); }, any);
}

change erase_account_window(std::string_view account, window_unit unit, std::int32_t label) {
  return erased(window_key(account, unit, label));
}

change erase_reservation(reservation_id id) {
  return erased(numbered_key(tag::reservation, id));
}

change erase_charge(std::uint64_t place) {
  return erased(numbered_key(tag::charge, place));
}

change erase_key_record(std::string_view id) {
  return erased(key_of(tag::key, id));
}

change erase_pair(std::uint64_t place) {
  return erased(numbered_key(tag::pair, place));
}

change erase_tenant_record(std::string_view name) {
  return erased(key_of(tag::tenant, name));
}

change erase_traffic_record(const traffic_key& key) {
  return erased(traffic_key_bytes(key));
}

bool is_storable(const auth::key_record& r) {
  const auto& t = r.terms;
  const auto& l = t.limits;
  const bool texts = fits(r.id, 1, k_account_bytes_max) && fits(r.name, 0, k_text_bytes_max) &&
                     fits(r.tenant, 0, k_text_bytes_max) && t.models.size() <= k_models_max;
  const bool models = std::all_of(t.models.begin(), t.models.end(),
                                  [](const std::string& m) { return fits(m, 1, k_text_bytes_max); });
  return texts && models && r.previous_until_s >= 0 && r.created_s >= 0 && l.requests_per_min >= 0 &&
         l.tokens_per_min >= 0 && l.concurrent >= 0 && l.usd_per_day >= 0 && l.usd_per_month >= 0;
}

bool is_storable(const policy::comparison::pair& p) {
  const bool overlap = p.alike.overlap >= 0 && p.alike.overlap <= 1;
  return fits(p.model, 1, k_text_bytes_max) && fits(p.tenant, 0, k_text_bytes_max) &&
         fits(p.key, 0, k_text_bytes_max) && p.at_s >= 0 && p.at_s <= k_label_s_last && overlap &&
         fits(p.primary) && fits(p.shadow);
}

bool is_storable(const auth::tenant_record& r) {
  return fits(r.name, 1, k_text_bytes_max) && r.weight >= 1;
}

bool is_storable(const traffic_row& r) {
  return fits(r.key.model, 1, k_text_bytes_max) && fits(r.key.target, 0, k_text_bytes_max) && r.key.hour >= 0;
}

}  // namespace weir::gateway::ledger
