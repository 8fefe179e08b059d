#include "gateway/ledger/load.hpp"

#include <fmt/format.h>
#include <rocksdb/db.h>

#include <memory>
#include <utility>

namespace weir::gateway::ledger {

namespace {

struct loader {
  contents out;
  bool has_state = false;

  void add(const state_record& r) {
    out.sums.state() = r;
    has_state = true;
  }
  void add(const stored_account& r) { out.sums.restore(r); }
  void add(const stored_window& r) { out.sums.restore(r); }
  void add(stored_reservation& r) { out.sums.restore(std::move(r)); }
  void add(stored_charge& r) { out.charged.push_back(std::move(r)); }
  void add(auth::key_record& r) { out.keys.emplace(r.id, std::move(r)); }
  void add(stored_pair& r) { out.pairs.push_back(std::move(r)); }  // the database has them in order
  void add(auth::tenant_record& r) { out.tenants.emplace(r.name, std::move(r)); }
  void add(traffic_row& r) { out.traffic.emplace(std::move(r.key), r.counts); }
};

std::unexpected<load_error> damaged(std::string detail) {
  return std::unexpected(load_error{load_fault::damaged, std::move(detail)});
}

std::string in_hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes.substr(0, 32)) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::expected<void, load_error> check_format(rocksdb::DB& database) {
  std::string version;
  const auto status = database.Get({}, rocksdb::Slice(k_format_key.data(), k_format_key.size()), &version);
  if (status.ok() && version == k_format_value) return {};
  if (!status.ok() && !status.IsNotFound()) return damaged(status.ToString());
  return std::unexpected(load_error{load_fault::foreign, status.ok() ? version.substr(0, 64) : "none"});
}

}  // namespace

std::expected<contents, load_error> load_contents(rocksdb::DB& database) {
  if (auto known = check_format(database); !known) return std::unexpected(std::move(known.error()));
  if (const auto status = database.VerifyChecksum(); !status.ok()) return damaged(status.ToString());
  loader into;
  const std::unique_ptr<rocksdb::Iterator> at(database.NewIterator({}));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const auto key = at->key().ToStringView();
    if (key == k_format_key) continue;
    auto read = decode(key, at->value().ToStringView());
    if (!read) return damaged(fmt::format("the record under {} cannot be read", in_hex(key)));
    std::visit([&into](auto& r) { into.add(r); }, *read);
  }
  if (!at->status().ok()) return damaged(at->status().ToString());
  if (!into.has_state) return damaged("the state record is missing");
  if (auto wrong = into.out.sums.find_contradiction()) return damaged(*wrong);
  return std::move(into.out);
}

}  // namespace weir::gateway::ledger
