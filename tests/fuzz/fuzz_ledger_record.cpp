// Records of a hostile ledger, their checksums made good: what is accepted encodes to the same bytes, and no
// set of them makes the sums overflow. Input: per record the key's length, the payload's (two bytes), both.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/ledger/book.hpp"

using namespace weir::gateway::ledger;

namespace {

void take_in(book& sums, const any_record& record) {
  if (const auto* r = std::get_if<state_record>(&record)) sums.state() = *r;
  if (const auto* r = std::get_if<stored_account>(&record)) sums.restore(*r);
  if (const auto* r = std::get_if<stored_window>(&record)) sums.restore(*r);
  if (const auto* r = std::get_if<stored_reservation>(&record)) {
    if (!sums.open().contains(r->id)) sums.restore(*r);
  }
}

// Charges all that is open and sweeps, as a start does.
void recover(book& sums, const moment& now) {
  while (!sums.open().empty()) {
    const auto [id, reservation] = *sums.open().begin();
    sums.end(id, reservation->amount, ending::charged);
  }
  sums.drop_old(now);
  for (const auto& [name, account] : sums.accounts()) {
    for (const auto* windows : {&account.days, &account.months}) {
      for (const auto& one : windows->all()) {
        if (one.reserved != 0 || one.spent < 0) std::abort();
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view left(reinterpret_cast<const char*>(data), size);
  book sums;
  while (left.size() > 3) {
    const std::size_t key_bytes = data[size - left.size()];
    const std::size_t payload_bytes = data[size - left.size() + 1] + 256u * data[size - left.size() + 2];
    left.remove_prefix(3);
    const auto key = left.substr(0, key_bytes);
    left.remove_prefix(key.size());
    const auto payload = left.substr(0, payload_bytes);
    left.remove_prefix(payload.size());
    decode(key, payload);
    const auto value = seal(key, payload);
    const auto read = decode(key, value);
    if (!read) continue;
    if (const auto again = encode(*read); again.key != key || again.value != value) std::abort();
    take_in(sums, *read);
  }
  const bool consistent = !sums.find_contradiction();
  const label_clock clock([&] { return sums.state().clock_s; }, [] { return std::int64_t{0}; }, 0);
  recover(sums, clock.now());
  if (consistent && sums.find_contradiction()) std::abort();
  return 0;
}
