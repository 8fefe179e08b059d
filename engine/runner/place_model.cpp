#include "engine/runner/place_model.hpp"

#include <map>
#include <utility>

#include "engine/model/each_weight.hpp"

namespace weir::engine::runner {

namespace {

constexpr std::int64_t k_align = 256;  // of rows that tensor cores and 16-byte loads begin at

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + k_align - 1) / k_align * k_align;
}

std::int64_t bytes_of(model::floats values) {
  return static_cast<std::int64_t>(values.size_bytes());
}

// Codes, and scales, which lie apart in files.
std::pair<std::int64_t, std::int64_t> bytes_of(const kernels::matrix& m) {
  const std::int64_t codes = kernels::code_bytes(m.type, model::values_of(m));
  return {codes, kernels::stored_bytes(m.type, model::values_of(m)) - codes};
}

// Hands out places for what has not been seen yet: a tied embedding is one matrix twice.
class placement final {
 public:
  // Where `from` goes, relative to the block, and whether this is the first time.
  std::pair<std::int64_t, bool> of(const void* from, std::int64_t bytes) {
    const auto [it, fresh] = places_.try_emplace(from, used_);
    if (fresh) used_ += aligned(bytes);
    return {it->second, fresh};
  }
  std::int64_t used() const noexcept { return used_; }

 private:
  std::map<const void*, std::int64_t> places_;
  std::int64_t used_ = 0;
};

}  // namespace

std::int64_t placed_bytes(const model::model_weights& weights) {
  placement places;
  const bool vectors_alone = weights.elsewhere != nullptr;
  model::each_weight(
      weights,
      [&places, vectors_alone](const kernels::matrix& m) {
        if (m.data == nullptr || vectors_alone) return;
        const auto [codes, scales] = bytes_of(m);
        places.of(m.data, codes);
        if (scales > 0) places.of(m.scales, scales);
      },
      [&places](model::floats values) {
        if (!values.empty()) places.of(values.data(), bytes_of(values));
      });
  return places.used();
}

std::shared_ptr<const loaded_model> place_model(const loaded_model& model, std::shared_ptr<device> where,
                                                const std::function<void(std::int64_t, std::int64_t)>& told) {
  const std::int64_t all = placed_bytes(model.weights);
  const auto block = std::shared_ptr<std::byte>(where->allocate(static_cast<std::size_t>(all)),
                                                [where](std::byte* memory) { where->release(memory); });
  placement places;
  const auto put = [&](const void* from, std::int64_t bytes) {
    const auto [at, fresh] = places.of(from, bytes);
    std::byte* const to = block.get() + at;
    if (fresh) {
      where->upload(to, from, static_cast<std::size_t>(bytes));
      if (told) told(places.used(), all);
    }
    return to;
  };
  auto out = std::make_shared<loaded_model>(loaded_model{model.config, model::copy_views(model.weights)});
  struct both {
    std::shared_ptr<const void> matrices, block;
  };
  const bool vectors_alone = model.weights.elsewhere != nullptr;
  out->weights.elsewhere = std::make_shared<both>(model.weights.elsewhere, block);
  model::each_weight(
      out->weights,
      [&](kernels::matrix& m) {
        if (m.data == nullptr || vectors_alone) return;
        const auto [codes, scales] = bytes_of(m);
        m.data = put(m.data, codes);
        if (scales > 0) m.scales = put(m.scales, scales);
      },
      [&](model::floats& values) {
        if (values.empty()) return;
        values = {reinterpret_cast<const float*>(put(values.data(), bytes_of(values))), values.size()};
      });
  where->wait();
  return out;
}

}  // namespace weir::engine::runner
