#include "engine/sample/least_length.hpp"

namespace weir::engine::sample {

namespace {

class matcher final : public token_matcher {
 public:
  matcher(std::int64_t tokens, std::shared_ptr<const token_mask> all) : left_(tokens), all_(std::move(all)) {}

  std::shared_ptr<const token_mask> allowed() override { return all_; }
  bool accept(std::int32_t) override {
    if (left_ > 0) --left_;
    return true;
  }
  bool is_complete() const noexcept override { return left_ == 0; }
  bool must_end() const noexcept override { return false; }

 private:
  std::int64_t left_;
  std::shared_ptr<const token_mask> all_;
};

class constraint final : public token_constraint {
 public:
  constraint(std::int64_t tokens, std::int32_t vocab_size) : tokens_(tokens) {
    auto all = std::make_shared<token_mask>();
    for (std::int32_t token = 0; token < vocab_size; ++token) insert(*all, token);
    all_ = std::move(all);
  }

  std::unique_ptr<token_matcher> start() const override { return std::make_unique<matcher>(tokens_, all_); }

 private:
  std::int64_t tokens_;
  std::shared_ptr<const token_mask> all_;
};

}  // namespace

std::shared_ptr<const token_constraint> least_length(std::int64_t tokens, std::int32_t vocab_size) {
  return std::make_shared<constraint>(tokens, vocab_size);
}

}  // namespace weir::engine::sample
