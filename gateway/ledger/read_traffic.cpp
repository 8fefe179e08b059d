#include <rocksdb/db.h>

#include <memory>

#include "gateway/ledger/record_tags.hpp"
#include "gateway/ledger/records.hpp"
#include "gateway/ledger/traffic.hpp"

namespace weir::gateway::ledger {

std::expected<traffic_table, std::string> read_traffic(const std::filesystem::path& folder) {
  rocksdb::DB* opened = nullptr;
  const auto status = rocksdb::DB::OpenForReadOnly({}, (folder / "db").string(), &opened);
  if (!status.ok()) {
    return std::unexpected(folder.string() + ": is no ledger that can be read (" + status.ToString() + ')');
  }
  const std::unique_ptr<rocksdb::DB> database(opened);
  std::string format;
  database->Get({}, rocksdb::Slice(k_format_key.data(), k_format_key.size()), &format);
  if (format != k_format_value) return std::unexpected(folder.string() + ": is a ledger of another format");
  traffic_table out;
  const std::unique_ptr<rocksdb::Iterator> at(database->NewIterator({}));
  const char first = static_cast<char>(tag::traffic);
  for (at->Seek(rocksdb::Slice(&first, 1)); at->Valid() && at->key().starts_with({&first, 1}); at->Next()) {
    auto read = decode(at->key().ToStringView(), at->value().ToStringView());
    auto* row = read ? std::get_if<traffic_row>(&*read) : nullptr;
    if (row == nullptr) return std::unexpected(folder.string() + ": a record of traffic is damaged");
    out.emplace(std::move(row->key), row->counts);
  }
  if (!at->status().ok()) return std::unexpected(folder.string() + ": " + at->status().ToString());
  return out;
}

}  // namespace weir::gateway::ledger
