#include "engine/structure/number_rules.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace weir::engine::structure {

namespace {

struct magnitude {
  std::string_view whole;
  std::string_view fraction;
};

magnitude split(std::string_view decimal) {
  if (decimal.starts_with('-')) decimal.remove_prefix(1);
  const auto point = decimal.find('.');
  if (point == decimal.npos) return {decimal, {}};
  return {decimal.substr(0, point), decimal.substr(point + 1)};
}

int compare_magnitudes(std::string_view a, std::string_view b) {
  const magnitude x = split(a), y = split(b);
  if (x.whole.size() != y.whole.size()) return x.whole.size() < y.whole.size() ? -1 : 1;
  const int whole = x.whole.compare(y.whole);
  if (whole != 0) return whole < 0 ? -1 : 1;
  // Canonical fractions have no zeros at their end, so they compare as texts.
  const int fraction = x.fraction.compare(y.fraction);
  return fraction == 0 ? 0 : fraction < 0 ? -1 : 1;
}

bool is_negative(const number_bound& bound) {
  return bound.decimal.starts_with('-');
}

// How the digits read so far compare with one bound's first ones.
enum class side : std::uint8_t { below, equal, above };

side compare_digit(side so_far, char digit, char bound) {
  if (so_far != side::equal || digit == bound) return so_far;
  return digit < bound ? side::below : side::above;
}

// After the whole part: a longer one is larger whatever its digits are.
side at_point(side so_far, std::size_t count, const magnitude& bound) {
  if (count != bound.whole.size()) return count < bound.whole.size() ? side::below : side::above;
  return so_far;
}

side at_end(side so_far, std::size_t fraction_count, const magnitude& bound) {
  return so_far == side::equal && fraction_count < bound.fraction.size() ? side::below : so_far;
}

bool inside(side low, side high, const std::optional<number_bound>& l, const std::optional<number_bound>& h) {
  const bool above = !l || low == side::above || (low == side::equal && !l->exclusive);
  const bool below = !h || high == side::below || (high == side::equal && !h->exclusive);
  return above && below;
}

// What reading digits must know: where it is, and both comparisons. A magnitude that is zero so far matters
// for the leading zero.
struct place {
  bool fraction = false;
  std::uint8_t count = 0;  // of digits on this side of the point
  bool zero = false;       // the whole part is "0"
  side low = side::equal;
  side high = side::equal;

  friend auto operator<=>(const place&, const place&) = default;
};

}  // namespace

int compare_decimals(std::string_view a, std::string_view b) {
  const bool a_negative = a.starts_with('-'), b_negative = b.starts_with('-');
  if (a_negative != b_negative) return a_negative ? -1 : 1;
  return a_negative ? -compare_magnitudes(a, b) : compare_magnitudes(a, b);
}

void number_rules::digits(state_id from, state_id to, std::uint32_t min, std::uint32_t max) {
  if (!digit_) {
    digit_ = out_.add_rule();
    out_.read(out_.start(*digit_), '0', '9', out_.end(*digit_));
  }
  out_.call(from, *digit_, to, min, max);
}

rule_id number_rules::any(bool whole) {
  auto& known = whole ? whole_ : any_;
  if (known) return *known;
  known = out_.add_rule();
  const state_id unsigned_part = out_.add_state(), more = out_.add_state(), integer = out_.add_state();
  const state_id end = out_.end(*known);
  out_.read(out_.start(*known), '-', unsigned_part);
  out_.skip(out_.start(*known), unsigned_part);
  out_.read(unsigned_part, '0', integer);
  out_.read(unsigned_part, '1', '9', more);
  digits(more, integer, 0, k_number_digits_max - 1);
  out_.skip(integer, end);
  if (whole) return *known;
  const state_id fraction = out_.add_state(), scaled = out_.add_state(), sign = out_.add_state();
  const state_id exponent = out_.add_state();
  out_.read(integer, '.', fraction);
  digits(fraction, scaled, 1, k_number_digits_max);
  out_.skip(integer, scaled);
  out_.skip(scaled, end);
  out_.read(scaled, 'e', sign);
  out_.read(scaled, 'E', sign);
  out_.read(sign, '+', exponent);
  out_.read(sign, '-', exponent);
  out_.skip(sign, exponent);
  digits(exponent, end, 1, k_exponent_digits_max);
  return *known;
}

// Unsigned decimals from |low| to |high|, by reading digits while comparing with both.
void number_rules::magnitudes(state_id from, const std::optional<number_bound>& low,
                              const std::optional<number_bound>& high, bool whole, state_id to) {
  const magnitude l = low ? split(low->decimal) : magnitude{};
  const magnitude h = high ? split(high->decimal) : magnitude{};
  std::map<place, state_id> known{{place{}, from}};
  std::vector<place> open{place{}};
  const auto state_of = [&](const place& p) {
    const auto [at, fresh] = known.try_emplace(p, 0);
    if (fresh) {
      at->second = out_.add_state();
      open.push_back(p);
    }
    return at->second;
  };
  const auto digit_of = [](std::string_view digits, std::size_t i, char missing) {
    return i < digits.size() ? digits[i] : missing;
  };
  for (std::size_t i = 0; i < open.size() && out_.ok(); ++i) {
    const place p = open[i];
    const state_id at = known[p];
    const side low_now = p.fraction ? p.low : at_point(p.low, p.count, l);
    const side high_now = p.fraction ? p.high : at_point(p.high, p.count, h);
    const std::size_t fraction_count = p.fraction ? p.count : 0;
    if (p.count > 0 &&
        inside(at_end(low_now, fraction_count, l), at_end(high_now, fraction_count, h), low, high)) {
      out_.skip(at, to);
    }
    if (!p.fraction && p.count > 0 && !whole)
      out_.read(at, '.', state_of({true, 0, p.zero, low_now, high_now}));
    if (p.count >= k_number_digits_max || (!p.fraction && p.zero)) continue;
    for (char digit = '0'; digit <= '9'; ++digit) {
      place next{p.fraction, static_cast<std::uint8_t>(p.count + 1),
                 p.zero || (!p.fraction && digit == '0' && p.count == 0)};
      const auto& l_digits = p.fraction ? l.fraction : l.whole;
      const auto& h_digits = p.fraction ? h.fraction : h.whole;
      // Behind a fraction's last digit stand zeros; behind a whole part's its length decides.
      next.low = low ? compare_digit(p.low, digit, digit_of(l_digits, p.count, p.fraction ? '0' : digit))
                     : side::equal;
      next.high = high ? compare_digit(p.high, digit, digit_of(h_digits, p.count, p.fraction ? '0' : digit))
                       : side::equal;
      out_.read(at, static_cast<unsigned char>(digit), state_of(next));
    }
  }
}

rule_id number_rules::between(const number_bounds& bounds, bool whole) {
  const rule_id out = out_.add_rule();
  const state_id negative = out_.add_state();
  static const number_bound k_zero{"0", false}, k_above_zero{"0", true};
  const auto& [low, high] = bounds;
  if (!high || !is_negative(*high)) {
    magnitudes(out_.start(out), low && !is_negative(*low) ? *low : k_zero, high, whole, out_.end(out));
  }
  if (!low || is_negative(*low)) {
    out_.read(out_.start(out), '-', negative);
    magnitudes(negative, high && is_negative(*high) ? *high : k_above_zero, low, whole, out_.end(out));
  }
  return out;
}

}  // namespace weir::engine::structure
