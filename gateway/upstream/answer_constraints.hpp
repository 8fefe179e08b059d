// What answers of the embedded engine are bound to, compiled off the I/O threads and kept for the next
// request that binds its answer alike: agents send the same tools with every turn. Any thread.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/constraint.hpp"
#include "gateway/api/answer_form.hpp"
#include "gateway/task.hpp"
#include "gateway/upstream/loaded_model.hpp"

namespace weir::gateway::upstream {

class answer_constraints final {
 public:
  explicit answer_constraints(text_tools tools) : tools_(std::move(tools)) {}

  // Of this vocabulary an answer can be bound to something.
  bool supported() const noexcept { return tools_.words != nullptr; }

  // Null where nothing binds the answer, or only what servers keep as well as they can. `thinking` as in the
  // prompt. `form` lives as long as the task.
  using outcome = result<std::shared_ptr<const engine::token_constraint>>;
  task<outcome> of(const std::optional<api::answer_form>& form, bool thinking, asio::thread_pool& pool);

 private:
  struct entry {
    std::string key;
    std::shared_ptr<const engine::token_constraint> constraint;
  };

  outcome compile(const api::answer_form& form, bool thinking) const;
  std::shared_ptr<const engine::token_constraint> find(const std::string& key);
  void keep(std::string key, const std::shared_ptr<const engine::token_constraint>& constraint);

  const text_tools tools_;
  std::mutex mutex_;
  std::list<entry> known_;  // the last used first
};

}  // namespace weir::gateway::upstream
