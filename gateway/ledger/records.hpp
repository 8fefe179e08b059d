// The bytes of the ledger: see FORMAT.md. Every value is sealed with a checksum over its own key and content,
// so that neither a flipped bit nor a value under the wrong key is ever taken for money. Pure functions;
// decode() takes untrusted bytes, and what it accepts encodes to the same bytes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "gateway/auth/key_terms.hpp"
#include "gateway/ledger/label_clock.hpp"
#include "gateway/ledger/traffic.hpp"
#include "gateway/ledger/types.hpp"

namespace weir::gateway::ledger {

inline constexpr std::string_view k_format_key{"\x00version", 8};
inline constexpr std::string_view k_format_value = "weir ledger 1";

inline constexpr std::size_t k_text_bytes_max = 1024;  // a name, a tenant, a model
inline constexpr std::size_t k_models_max = 1024;      // of one key

// One per ledger, rewritten by every commit.
struct state_record {
  std::uint64_t commit = 0;  // number of the batch that wrote this
  reservation_id next_id = 1;
  std::uint64_t settled = 0;  // ended reservations, by how they ended
  std::uint64_t charged = 0;
  std::uint64_t voided = 0;       // never acknowledged: their commit failed
  std::uint64_t next_charge = 0;  // place in the list of charged reservations
  usd_nano spent = 0;             // ever, over all accounts
  std::int64_t clock_s = 0;       // latest label time: no later run goes behind it

  friend bool operator==(const state_record&, const state_record&) = default;
};

struct account_record {
  std::uint64_t reservations = 0;  // ever written
  std::uint64_t ended = 0;         // of these
  usd_nano spent = 0;              // ever

  friend bool operator==(const account_record&, const account_record&) = default;
};

struct reservation_record {
  std::string account;
  std::string request_id;
  usd_nano amount = 0;
  day_number day = 0;
  month_number month = 0;
  std::int64_t reserved_at_s = 0;

  friend bool operator==(const reservation_record&, const reservation_record&) = default;
};

enum class window_unit : char { day = 'd', month = 'm' };

struct stored_account {
  std::string account;
  account_record record;
};
struct stored_window {
  std::string account;
  window_unit unit = window_unit::day;
  std::int32_t label = 0;  // day_number or month_number, >= 0
  usd_nano spent = 0;
};
struct stored_reservation {
  reservation_id id = 0;
  reservation_record record;
};
struct stored_charge {
  std::uint64_t place = 0;
  charged_reservation record;
};

using any_record =
    std::variant<state_record, stored_account, stored_window, stored_reservation, stored_charge,
                 auth::key_record, auth::tenant_record, traffic_row, stored_pair>;

// What a batch does to one key of the database.
struct change {
  std::string key;
  std::optional<std::string> value;  // nothing: the key is deleted
};

// REQUIRES: texts and counts within the limits, numbers >= 0.
change encode(const any_record&);

change erase_account_window(std::string_view account, window_unit, std::int32_t label);
change erase_reservation(reservation_id);
change erase_charge(std::uint64_t place);
change erase_key_record(std::string_view id);
change erase_tenant_record(std::string_view name);
change erase_traffic_record(const traffic_key&);
change erase_pair(std::uint64_t place);

// Nothing: damaged, or of a version that is not ours.
std::optional<any_record> decode(std::string_view key, std::string_view value);

// The payload as a value under this key.
std::string seal(std::string_view key, std::string_view payload);

// Within what FORMAT.md allows.
bool is_storable(const auth::key_record&);
bool is_storable(const auth::tenant_record&);
bool is_storable(const traffic_row&);
bool is_storable(const policy::comparison::pair&);

}  // namespace weir::gateway::ledger
