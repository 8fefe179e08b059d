#include "engine/structure/answer_constraint.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/structure/automaton.hpp"

namespace weir::engine::structure {

namespace {

// What all matchers of a constraint share. An automaton that grew too large is replaced; matchers bring their
// places over when they next come by.
class shared_rules final {
 public:
  shared_rules(answer_grammar rules, std::shared_ptr<const vocabulary> words)
      : rules_(std::move(rules)), words_(std::move(words)), walked_(fresh()) {}

  struct position {
    std::shared_ptr<automaton> in;
    place_id at;
    bool complete;
    bool goes_on;
  };

  position start() {
    const std::lock_guard lock(mutex_);
    return described({walked_, walked_->start(), false, false});
  }

  std::shared_ptr<const token_mask> allowed(position& p) {
    const std::lock_guard lock(mutex_);
    renew(p);
    if (const auto& known = p.in->mask(p.at)) return known;
    auto mask = std::make_shared<token_mask>();
    if (!words_->allowed(*p.in, p.at, *mask)) return nullptr;
    for (std::size_t m = 0; m < rules_.markers.size(); ++m) {
      if (p.in->step(p.at, marker(m)) != k_dead) insert(*mask, rules_.markers[m]);
    }
    p.in->keep_mask(p.at, mask);
    return mask;
  }

  bool accept(position& p, std::int32_t token) {
    const std::lock_guard lock(mutex_);
    renew(p);
    const auto special = std::find(rules_.markers.begin(), rules_.markers.end(), token);
    place_id at = p.at;
    if (special != rules_.markers.end()) {
      at = p.in->step(at, marker(static_cast<std::size_t>(special - rules_.markers.begin())));
    } else {
      const std::string_view bytes = words_->bytes(token);
      if (bytes.empty()) return false;
      for (std::size_t i = 0; i < bytes.size() && at != k_dead; ++i) {
        at = p.in->step(at, static_cast<std::uint8_t>(bytes[i]));
      }
    }
    if (at == k_dead || p.in->overloaded()) return false;
    p.at = at;
    p = described(std::move(p));
    return true;
  }

 private:
  static symbol marker(std::size_t index) { return static_cast<symbol>(k_first_marker + index); }

  std::shared_ptr<automaton> fresh() const {
    return std::make_shared<automaton>(rules_.rules, rules_.markers.size());
  }

  static position described(position p) {
    p.complete = p.in->is_complete(p.at);
    p.goes_on = p.in->goes_on(p.at);
    return p;
  }

  void renew(position& p) {
    if (walked_->bytes() > k_automaton_bytes_max) walked_ = fresh();
    if (p.in == walked_) return;
    p.at = walked_->adopt(*p.in, p.at);
    p.in = walked_;
  }

  const answer_grammar rules_;
  const std::shared_ptr<const vocabulary> words_;
  std::mutex mutex_;
  std::shared_ptr<automaton> walked_;
};

class matcher final : public token_matcher {
 public:
  explicit matcher(std::shared_ptr<shared_rules> rules) : rules_(std::move(rules)), at_(rules_->start()) {}

  std::shared_ptr<const token_mask> allowed() override { return rules_->allowed(at_); }
  bool accept(std::int32_t token) override { return rules_->accept(at_, token); }
  bool is_complete() const noexcept override { return at_.complete; }
  bool must_end() const noexcept override { return at_.complete && !at_.goes_on; }

 private:
  std::shared_ptr<shared_rules> rules_;
  shared_rules::position at_;
};

class constraint final : public token_constraint {
 public:
  explicit constraint(std::shared_ptr<shared_rules> rules) : rules_(std::move(rules)) {}
  std::unique_ptr<token_matcher> start() const override { return std::make_unique<matcher>(rules_); }

 private:
  std::shared_ptr<shared_rules> rules_;
};

}  // namespace

std::shared_ptr<const token_constraint> make_constraint(answer_grammar rules,
                                                        std::shared_ptr<const vocabulary> words) {
  return std::make_shared<constraint>(std::make_shared<shared_rules>(std::move(rules), std::move(words)));
}

}  // namespace weir::engine::structure
