#include "engine/synth/device_source.hpp"

#include <algorithm>
#include <utility>

namespace weir::engine::synth {

namespace {

constexpr std::size_t k_chunk_bytes = std::size_t{1} << 30;
constexpr std::size_t k_align = 256;

// What a matrix is filled like: its use in a layer, whichever layer and expert it is of, and its depth.
std::string kind_of(std::string_view name, const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const char c : name) {
    if (c < '0' || c > '9') out += c;
  }
  return out + " " + std::to_string(shape.back());
}

}  // namespace

device_source::device_source(std::uint64_t seed, kernels::thread_pool& pool,
                             std::shared_ptr<runner::device> where, std::function<void(std::int64_t)> told)
    : seed_(seed),
      pool_(pool),
      device_(std::move(where)),
      told_(std::move(told)),
      vectors_(seed, pool, nullptr) {}

device_source::memory device_source::allocate(std::size_t bytes) {
  return {device_->allocate(bytes), [where = device_](std::byte* it) { where->release(it); }};
}

std::byte* device_source::reserve(std::size_t bytes) {
  const std::size_t whole = (bytes + k_align - 1) / k_align * k_align;
  if (whole >= k_chunk_bytes) {
    // By itself, before the chunk that is still being cut.
    return chunks_.insert(chunks_.begin(), allocate(whole))->get();
  }
  if (chunks_.empty() || used_ + whole > k_chunk_bytes) {
    chunks_.push_back(allocate(k_chunk_bytes));
    used_ = 0;
  }
  return chunks_.back().get() + std::exchange(used_, used_ + whole);
}

std::optional<model::tensor_view> device_source::take(std::string_view name,
                                                      const std::vector<std::int64_t>& shape,
                                                      model::storage how) {
  if (how == model::storage::vector) return vectors_.take(name, shape, how);
  const auto plan = plan_of(name, shape, how);
  const auto bytes = static_cast<std::size_t>(plan.bytes);
  auto& block = blocks_[kind_of(name, shape)];
  if (block == nullptr) {
    std::vector<std::byte> drawn(k_block_bytes);
    fill_tensor(name, shape, how, seed_, 0, drawn, pool_);
    block = allocate(k_block_bytes);
    device_->upload(block.get(), drawn.data(), drawn.size());
  }
  std::byte* const to = reserve(bytes);
  for (std::size_t at = 0; at < bytes; at += k_block_bytes) {
    device_->copy(to + at, block.get(), std::min(k_block_bytes, bytes - at));
  }
  made_bytes_ += plan.bytes;
  if (told_) told_(made_bytes_);
  return model::tensor_view{std::string(plan.dtype), shape, {to, bytes}};
}

}  // namespace weir::engine::synth
