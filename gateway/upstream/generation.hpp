// The choices of one request while the embedded engine generates them: tokens become text, stop strings cut
// it, tool-call markup becomes calls. One request, one I/O thread; destroying it cancels what still runs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/text/chat_format.hpp"
#include "engine/text/detokenizer.hpp"
#include "engine/text/stop_matcher.hpp"
#include "gateway/api/choice_event.hpp"
#include "gateway/errc.hpp"
#include "gateway/task.hpp"
#include "gateway/upstream/loaded_model.hpp"
#include "gateway/upstream/mailbox.hpp"

namespace weir::gateway::upstream {

class generation final {
 public:
  generation(std::shared_ptr<engine::engine> engine, text_tools tools, std::vector<std::string> stops,
             io_executor executor);
  ~generation();
  generation(const generation&) = delete;
  generation& operator=(const generation&) = delete;

  // Queues one more choice. On an error nothing of it runs; earlier choices do until destruction.
  result<void> add(engine::generate_request request);

  // The next events, at least one; empty after every choice finished.
  task<result<std::vector<api::choice_event>>> next(time_point deadline);

  std::int64_t completion_tokens() const noexcept { return completion_tokens_; }
  // Of the choices numbered 0, `every`, 2 * every, ...: the first of each prompt. -1 while none has started.
  std::int64_t cached_tokens(std::size_t every) const noexcept;
  int choice_count() const noexcept { return static_cast<int>(choices_.size()); }

 private:
  struct choice_state {
    engine::sequence_id sequence = 0;
    std::unique_ptr<engine::text::chat_parser> parser;  // chat
    engine::text::detokenizer detokenizer;              // completions
    engine::text::stop_matcher matcher;
    bool logprobs = false;
    bool finished = false;
    std::int32_t cached_tokens = -1;  // of its prompt; -1 until it starts
  };

  void take_token(choice_state& choice, const engine::token_event& token, api::choice_event& out);
  void take_finish(choice_state& choice, engine::finish_reason reason, api::choice_event& out);
  void show_held(choice_state& choice, api::choice_event& out);
  void add_text(choice_state& choice, std::string text, api::choice_event& out);
  void finish(choice_state& choice, api::finish_kind kind, api::choice_event& out);

  std::shared_ptr<engine::engine> engine_;
  text_tools tools_;
  std::vector<std::string> stops_;
  std::shared_ptr<mailbox> box_;
  std::vector<choice_state> choices_;
  std::vector<mail> mails_;
  std::int64_t completion_tokens_ = 0;
  int running_ = 0;
  bool failed_ = false;
};

// An engine error as the client sees it.
error to_gateway_error(const engine::error& e);

}  // namespace weir::gateway::upstream
