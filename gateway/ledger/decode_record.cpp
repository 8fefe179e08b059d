#include <algorithm>

#include "gateway/ledger/byte_codec.hpp"
#include "gateway/ledger/record_tags.hpp"
#include "gateway/ledger/records.hpp"

namespace weir::gateway::ledger {

namespace {

constexpr std::size_t k_seal_bytes = 8;

auth::digest read_digest(byte_reader& in) {
  auth::digest digest{};
  const auto bytes = in.bytes(digest.size());
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

template <class Enum>
Enum read_enum(byte_reader& in, Enum last) {
  return static_cast<Enum>(in.number<std::uint8_t>(static_cast<std::uint8_t>(last)));
}

std::string read_rest(byte_reader& key, std::size_t bytes_max) {
  const auto size = key.left();
  if (size == 0 || size > bytes_max) return {};
  return std::string(key.bytes(size));
}

// What was read, if both the key and the value were read to their ends.
template <class T>
std::optional<any_record> whole(const byte_reader& key, const byte_reader& in, T&& read) {
  if (!key.whole() || !in.whole()) return std::nullopt;
  return any_record(std::forward<T>(read));
}

std::optional<any_record> read_state(byte_reader& key, byte_reader& in) {
  state_record r;
  r.commit = in.number<std::uint64_t>();
  r.next_id = in.number<reservation_id>();
  r.settled = in.number<std::uint64_t>();
  r.charged = in.number<std::uint64_t>();
  r.voided = in.number<std::uint64_t>();
  r.next_charge = in.number<std::uint64_t>();
  r.spent = in.number<usd_nano>();
  r.clock_s = in.number<std::int64_t>(k_label_s_last);
  if (r.next_id == 0) return std::nullopt;
  return whole(key, in, r);
}

std::optional<any_record> read_account(byte_reader& key, byte_reader& in) {
  stored_account r;
  r.account = read_rest(key, k_account_bytes_max);
  r.record.reservations = in.number<std::uint64_t>();
  r.record.ended = in.number<std::uint64_t>();
  r.record.spent = in.number<usd_nano>();
  if (r.account.empty() || r.record.ended > r.record.reservations) return std::nullopt;
  return whole(key, in, std::move(r));
}

std::optional<any_record> read_window(byte_reader& key, byte_reader& in) {
  stored_window r;
  const std::size_t size = key.ordered<std::uint16_t>(k_account_bytes_max);
  r.account = key.bytes(size);
  const auto unit = key.bytes(1);
  r.label = key.ordered<std::int32_t>(unit == "d" ? k_day_last : k_month_last);
  r.spent = in.number<usd_nano>();
  if (r.account.empty() || (unit != "d" && unit != "m")) return std::nullopt;
  r.unit = static_cast<window_unit>(unit.front());
  return whole(key, in, std::move(r));
}

std::optional<any_record> read_reservation(byte_reader& key, byte_reader& in) {
  stored_reservation r;
  r.id = key.ordered<reservation_id>();
  r.record.account = in.text(1, k_account_bytes_max);
  r.record.request_id = in.text(0, k_request_id_bytes_max);
  r.record.amount = in.number<usd_nano>();
  r.record.day = in.number<day_number>(k_day_last);
  r.record.month = in.number<month_number>(k_month_last);
  r.record.reserved_at_s = in.number<std::int64_t>();
  if (r.id == 0) return std::nullopt;
  return whole(key, in, std::move(r));
}

std::optional<any_record> read_charge(byte_reader& key, byte_reader& in) {
  stored_charge r;
  r.place = key.ordered<std::uint64_t>();
  r.record.id = in.number<reservation_id>();
  r.record.account = in.text(1, k_account_bytes_max);
  r.record.request_id = in.text(0, k_request_id_bytes_max);
  r.record.amount = in.number<usd_nano>();
  r.record.reserved_at_s = in.number<std::int64_t>();
  r.record.charged_at_s = in.number<std::int64_t>();
  return whole(key, in, std::move(r));
}

std::optional<any_record> read_key(byte_reader& key, byte_reader& in) {
  auth::key_record r;
  r.id = read_rest(key, k_account_bytes_max);
  r.name = in.text(0, k_text_bytes_max);
  r.tenant = in.text(0, k_text_bytes_max);
  r.digest = read_digest(in);
  if (in.flag()) r.previous_digest = read_digest(in);
  r.previous_until_s = in.number<std::int64_t>();
  r.created_s = in.number<std::int64_t>();
  r.revoked = in.flag();
  const std::size_t models = in.number<std::uint16_t>(k_models_max);
  for (std::size_t i = 0; i < models; ++i) r.terms.models.push_back(in.text(1, k_text_bytes_max));
  auto& limits = r.terms.limits;
  limits.requests_per_min = in.number<std::int64_t>();
  limits.tokens_per_min = in.number<std::int64_t>();
  limits.concurrent = in.number<std::int64_t>();
  limits.usd_per_day = in.number<usd_nano>();
  limits.usd_per_month = in.number<usd_nano>();
  r.terms.residency = read_enum(in, auth::residency::local_only);
  r.terms.priority = read_enum(in, auth::priority_class::high);
  r.terms.sharing = read_enum(in, auth::key_sharing::site);
  r.terms.shadow = in.flag();
  if (r.id.empty()) return std::nullopt;
  return whole(key, in, std::move(r));
}

std::optional<any_record> read_tenant(byte_reader& key, byte_reader& in) {
  auth::tenant_record r;
  r.name = read_rest(key, k_text_bytes_max);
  r.weight = in.number<std::int64_t>();
  if (r.name.empty() || r.weight < 1) return std::nullopt;
  return whole(key, in, std::move(r));
}

std::optional<any_record> read_traffic_row(byte_reader& key, byte_reader& in) {
  traffic_row r;
  r.key.hour = key.ordered<hour_number>();
  r.key.model = key.bytes(key.ordered<std::uint16_t>(k_text_bytes_max));
  if (key.left() > k_text_bytes_max) return std::nullopt;
  r.key.target = key.bytes(key.left());
  auto& c = r.counts;
  c.hosted = in.flag();
  for (auto* count : {&c.requests, &c.accepted, &c.failed, &c.retried, &c.local_only, &c.prompt_tokens,
                      &c.known_tokens, &c.cached_tokens, &c.output_tokens, &c.cost, &c.first_s, &c.last_s}) {
    *count = in.number<std::int64_t>();
  }
  if (r.key.model.empty()) return std::nullopt;
  return whole(key, in, std::move(r));
}

std::int64_t read_one_less(byte_reader& in) {
  return in.number<std::int64_t>(k_pair_number_max + 1) - 1;
}

policy::comparison::side read_side(byte_reader& in) {
  policy::comparison::side s;
  s.target = in.text(1, k_text_bytes_max);
  s.end = read_enum(in, policy::comparison::side_end::broken);
  s.status = in.number<std::uint16_t>(k_status_max);
  s.prompt_tokens = read_one_less(in);
  s.cached_tokens = read_one_less(in);
  s.output_tokens = read_one_less(in);
  s.price = in.number<usd_nano>(k_pair_number_max);
  s.unpriced = in.flag();
  s.ttft_ns = read_one_less(in);
  s.itl_mean_ns = read_one_less(in);
  s.itl_median_ns = read_one_less(in);
  s.end_to_end_ns = read_one_less(in);
  s.excerpt = in.text(0, k_excerpt_bytes_max);
  return s;
}

std::optional<any_record> read_pair(byte_reader& key, byte_reader& in) {
  const auto place = key.ordered<std::uint64_t>(k_pair_number_max);
  auto p = std::make_shared<policy::comparison::pair>();
  p->at_s = in.number<std::int64_t>(k_label_s_last);
  p->model = in.text(1, k_text_bytes_max);
  p->tenant = in.text(0, k_text_bytes_max);
  p->key = in.text(0, k_text_bytes_max);
  p->streamed = in.flag();
  p->primary = read_side(in);
  p->shadow = read_side(in);
  p->alike.compared = in.flag();
  p->alike.cut = in.flag();
  p->alike.exact = in.flag();
  p->alike.overlap = static_cast<double>(in.number<std::uint32_t>(k_overlap_one)) / k_overlap_one;
  p->alike.json = read_enum(in, policy::comparison::likeness::different);
  p->alike.tools = read_enum(in, policy::comparison::likeness::different);
  return whole(key, in, stored_pair{.place = place, .record = std::move(p)});
}

}  // namespace

std::optional<any_record> decode(std::string_view key, std::string_view value) {
  if (key.empty() || value.size() <= k_seal_bytes) return std::nullopt;
  const auto payload = value.substr(1, value.size() - 1 - k_seal_bytes);
  if (static_cast<std::uint8_t>(value.front()) != k_value_version || seal(key, payload) != value) {
    return std::nullopt;
  }
  byte_reader rest(key.substr(1));
  byte_reader in(payload);
  switch (static_cast<tag>(key.front())) {
    case tag::state:
      return read_state(rest, in);
    case tag::account:
      return read_account(rest, in);
    case tag::window:
      return read_window(rest, in);
    case tag::reservation:
      return read_reservation(rest, in);
    case tag::charge:
      return read_charge(rest, in);
    case tag::key:
      return read_key(rest, in);
    case tag::tenant:
      return read_tenant(rest, in);
    case tag::traffic:
      return read_traffic_row(rest, in);
    case tag::pair:
      return read_pair(rest, in);
  }
  return std::nullopt;
}

}  // namespace weir::gateway::ledger
