#include "engine/parallel/step_message.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace weir::engine::parallel {

namespace {

using kv::memory_op;

constexpr std::int32_t k_orders = 3;

std::int32_t pages_of(std::int32_t tokens, std::int32_t page_tokens) {
  return (tokens - 1) / page_tokens + 1;
}

// Whole numbers of 32 bits one behind the other; what it gives once they do not suffice, or one was out of
// its range, is in range and means nothing.
class number_reader final {
 public:
  explicit number_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::int32_t next(const char* what, std::int64_t least, std::int64_t most) {
    std::int32_t value = 0;
    if (bytes_.size() < sizeof value) {
      refuse(what, "is missing");
      return static_cast<std::int32_t>(least);
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    if (value >= least && value <= most) return value;
    refuse(what,
           std::to_string(value) + " is not from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<std::int32_t>(least);
  }
  // How many things follow, of at least `size` numbers each.
  std::int32_t count(const char* what, std::int64_t most, std::size_t size) {
    const auto there = static_cast<std::int64_t>(bytes_.size() / (size * sizeof(std::int32_t)));
    return next(what, 0, std::min(most, there));
  }
  void refuse(const char* what, const std::string& why) {
    if (fault_.empty()) fault_ = std::string(what) + ": " + why;
  }
  bool good() const noexcept { return fault_.empty(); }
  bool at_end() const noexcept { return bytes_.empty(); }
  const std::string& fault() const noexcept { return fault_; }

 private:
  std::span<const std::byte> bytes_;
  std::string fault_;
};

void read_copies(number_reader& in, const step_limits& limits, std::vector<memory_op>& out) {
  for (std::int32_t left = in.count("copies", std::numeric_limits<std::int32_t>::max(), 3);
       left > 0 && in.good(); --left) {
    const auto what = static_cast<memory_op::kind>(in.next("kind of copy", 0, 1));
    const std::int64_t places =
        what == memory_op::kind::copy_state ? std::int64_t{limits.slab_count} : limits.page_count();
    const std::int32_t from = in.next("copy from", 0, places - 1);
    out.push_back({what, from, in.next("copy to", 0, places - 1)});
  }
}

void read_sequence(number_reader& in, const step_limits& limits, runner::batch& out) {
  const std::int32_t rows_left = limits.rows_max - out.row_count();
  const std::int32_t slot = in.next("slot", 0, limits.slab_count - 1);
  const std::int32_t position = in.next("position", 0, limits.context_tokens - 1);
  const std::int32_t count = in.next("tokens", 1, std::min(rows_left, limits.context_tokens - position));
  std::vector<std::int32_t> tokens, pages;
  for (std::int32_t i = 0; i < count && in.good(); ++i) {
    tokens.push_back(in.next("token", 0, limits.vocab_size - 1));
  }
  const std::int32_t page_count = pages_of(position + count, limits.page_tokens);
  if (page_count > out.table_stride) return in.refuse("pages", "there are more than the table is wide");
  for (std::int32_t i = 0; i < page_count && in.good(); ++i) {
    pages.push_back(in.next("page", 0, limits.page_count() - 1));
  }
  if (in.good()) out.append(tokens, position, slot, pages);
}

void read_batch(number_reader& in, const step_limits& limits, runner::batch& out) {
  out.reset(
      in.next("width of the table", 0, std::min<std::int64_t>(limits.page_count(), limits.context_tokens)));
  const std::int32_t sequences = in.count("sequences", limits.sequences_max, 5);
  for (std::int32_t i = 0; i < sequences && in.good(); ++i) {
    if (out.row_count() == limits.rows_max) return in.refuse("sequences", "their tokens are too many");
    read_sequence(in, limits, out);
  }
  std::int32_t least = 0;
  for (std::int32_t left = in.count("rows with logits", out.row_count(), 1); left > 0 && in.good(); --left) {
    out.logit_rows.push_back(in.next("row with logits", least, out.row_count() - 1));
    least = out.logit_rows.back() + 1;
  }
}

class number_writer final {
 public:
  number_writer(order what, std::span<const memory_op> copies) {
    add(static_cast<std::int32_t>(what));
    add(static_cast<std::int64_t>(copies.size()));
    for (const memory_op& op : copies) {
      add(static_cast<std::int32_t>(op.what));
      add(op.from);
      add(op.to);
    }
  }
  void add(std::int64_t value) {
    const auto number = static_cast<std::int32_t>(value);
    const auto* bytes = reinterpret_cast<const std::byte*>(&number);
    out_.insert(out_.end(), bytes, bytes + sizeof number);
  }
  void add(std::span<const std::int32_t> values) {
    const auto bytes = std::as_bytes(values);
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

}  // namespace

std::vector<std::byte> write_stop() {
  return number_writer(order::stop, {}).take();
}

std::vector<std::byte> write_norms(std::span<const memory_op> copies, std::int32_t slot) {
  number_writer out(order::norms, copies);
  out.add(slot);
  return out.take();
}

std::vector<std::byte> write_step(std::span<const memory_op> copies, const runner::batch& work,
                                  std::int32_t page_tokens) {
  number_writer out(order::step, copies);
  out.add(work.table_stride);
  out.add(static_cast<std::int64_t>(work.sequences.size()));
  for (std::size_t i = 0; i < work.sequences.size(); ++i) {
    const kernels::sequence_range& seq = work.sequences[i];
    out.add(seq.slot);
    out.add(seq.position);
    out.add(seq.count);
    out.add(std::span(work.tokens)
                .subspan(static_cast<std::size_t>(seq.row), static_cast<std::size_t>(seq.count)));
    const auto pages = static_cast<std::size_t>(pages_of(seq.position + seq.count, page_tokens));
    assert(pages <= static_cast<std::size_t>(work.table_stride));
    out.add(std::span(work.block_table).subspan(i * static_cast<std::size_t>(work.table_stride), pages));
  }
  out.add(static_cast<std::int64_t>(work.logit_rows.size()));
  out.add(work.logit_rows);
  return out.take();
}

result<step_message> read_message(std::span<const std::byte> bytes, const step_limits& limits) {
  number_reader in(bytes);
  step_message out;
  out.what = static_cast<order>(in.next("order", 0, k_orders - 1));
  read_copies(in, limits, out.copies);
  if (in.good() && out.what == order::norms) out.slot = in.next("slot", 0, limits.slab_count - 1);
  if (in.good() && out.what == order::step) read_batch(in, limits, out.work);
  if (in.good() && !in.at_end()) in.refuse("message", "it goes on behind its end");
  if (!in.good()) return fail(errc::bad_request, "rank 0 sent what cannot be: " + in.fault());
  return out;
}

}  // namespace weir::engine::parallel
