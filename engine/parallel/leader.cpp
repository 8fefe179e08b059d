#include "engine/parallel/leader.hpp"

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "engine/parallel/state_norms.hpp"
#include "engine/parallel/step_message.hpp"

namespace weir::engine::parallel {

namespace {

class leader final : public runner::model_runner {
 public:
  leader(std::unique_ptr<communicator> ranks, std::unique_ptr<runner::model_runner> own,
         std::int32_t page_tokens)
      : ranks_(std::move(ranks)), own_(std::move(own)), page_tokens_(page_tokens) {}

  ~leader() override {
    try {
      send(write_stop());
    } catch (const std::exception&) {
      // They are gone, or will be: each sees that this rank ends.
    }
  }

  void copy(std::span<const kv::memory_op> ops) override {
    copies_.insert(copies_.end(), ops.begin(), ops.end());
  }

  void run(const runner::batch& work) override {
    if (work.row_count() == 0 && copies_.empty()) return;
    together([&] {
      send(write_step(copies_, work, page_tokens_));
      own_->copy(copies_);
      copies_.clear();
      if (work.row_count() > 0) own_->run(work);
    });
  }

  void copy_logits(std::int32_t index, std::span<double> out) const override {
    own_->copy_logits(index, out);
  }

  std::vector<double> kda_state_norms(std::int32_t slot) const override {
    std::vector<double> out;
    together([&] {
      send(write_norms(copies_, slot));
      own_->copy(copies_);
      copies_.clear();
      out = joint_norms(*ranks_, own_->kda_state_norms(slot));
    });
    return out;
  }

  void check() override { ranks_->check(); }

 private:
  void send(std::vector<std::byte> message) const { ranks_->broadcast(message); }

  // What fails here fails for all: the others are at some operation of the same step.
  template <class Body>
  void together(Body&& body) const {
    try {
      body();
    } catch (const rank_lost&) {
      throw;
    } catch (const std::exception& fault) {
      ranks_->abandon();
      throw rank_lost(0, fault.what());
    }
  }

  std::unique_ptr<communicator> ranks_;
  std::unique_ptr<runner::model_runner> own_;
  std::int32_t page_tokens_;
  mutable std::vector<kv::memory_op> copies_;  // not done yet; whoever comes first does them
};

}  // namespace

std::unique_ptr<runner::model_runner> make_leader(std::unique_ptr<communicator> ranks,
                                                  std::unique_ptr<runner::model_runner> own,
                                                  std::int32_t page_tokens) {
  return std::make_unique<leader>(std::move(ranks), std::move(own), page_tokens);
}

}  // namespace weir::engine::parallel
