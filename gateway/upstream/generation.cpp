#include "gateway/upstream/generation.hpp"

#include <algorithm>
#include <utility>

namespace weir::gateway::upstream {

using engine::text::content_delta;

error to_gateway_error(const engine::error& e) {
  switch (e.code) {
    case engine::errc::bad_request:
      return {errc::bad_request, e.detail, {}};
    case engine::errc::context_length:
      return {errc::context_length, e.detail, {}};
    case engine::errc::unsupported:
      return {errc::unsupported, e.detail, {}};
    case engine::errc::queue_full:
      return {errc::overloaded, "the engine's queue is full; retry in a moment", {}};
    case engine::errc::stopped:
      return {errc::draining, "the engine is shutting down", {}};
    case engine::errc::lost:
      return {errc::draining, e.detail, {}};
    case engine::errc::io:
    case engine::errc::bad_model:
      break;
  }
  return {errc::internal, "the engine could not take the request", {}};
}

generation::generation(std::shared_ptr<engine::engine> engine, text_tools tools,
                       std::vector<std::string> stops, io_executor executor)
    : engine_(std::move(engine)),
      tools_(std::move(tools)),
      stops_(std::move(stops)),
      box_(std::make_shared<mailbox>(executor)) {}

generation::~generation() {
  for (const auto& choice : choices_) {
    if (!choice.finished) engine_->cancel(choice.sequence);
  }
  box_->close();
}

result<void> generation::add(engine::generate_request request) {
  const bool logprobs = request.sampling.top_logprobs >= 0;
  auto sink = std::make_shared<choice_sink>(box_, choice_count());
  const auto id = engine_->submit(std::move(request), std::move(sink));
  if (!id) return std::unexpected(to_gateway_error(id.error()));
  choices_.push_back({.sequence = *id,
                      .parser = tools_.chat ? tools_.chat->make_parser(tools_.thinking) : nullptr,
                      .detokenizer = engine::text::detokenizer(*tools_.tokenizer),
                      .matcher = engine::text::stop_matcher(stops_),
                      .logprobs = logprobs});
  ++running_;
  return {};
}

std::int64_t generation::cached_tokens(std::size_t every) const noexcept {
  std::int64_t out = -1;
  for (std::size_t i = 0; i < choices_.size(); i += every) {
    if (choices_[i].cached_tokens >= 0) out = std::max<std::int64_t>(out, 0) + choices_[i].cached_tokens;
  }
  return out;
}

void generation::finish(choice_state& choice, api::finish_kind kind, api::choice_event& out) {
  choice.finished = true;
  --running_;
  out.finish = kind;
}

// Stop strings apply to content; a tool call's arguments pass as they are.
void generation::add_text(choice_state& choice, std::string text, api::choice_event& out) {
  auto shown = choice.matcher.push(text);
  if (!shown.empty()) out.deltas.emplace_back(content_delta{std::move(shown)});
  if (!choice.matcher.stopped()) return;
  engine_->cancel(choice.sequence);
  finish(choice, api::finish_kind::stop, out);
}

void generation::take_token(choice_state& choice, const engine::token_event& token, api::choice_event& out) {
  ++completion_tokens_;
  if (choice.logprobs) {
    api::token_detail detail{std::string(tools_.tokenizer->token_bytes(token.token)), token.logprob, {}};
    for (const auto& top : token.top) {
      detail.top.push_back({std::string(tools_.tokenizer->token_bytes(top.token)), top.logprob});
    }
    out.tokens.push_back(std::move(detail));
  }
  if (!choice.parser) {
    if (tools_.tokenizer->is_special(token.token))
      return;  // markup is not text, as other servers have it by default
    if (auto text = choice.detokenizer.push(token.token); !text.empty())
      add_text(choice, std::move(text), out);
    return;
  }
  for (auto& delta : choice.parser->push(token.token)) {
    if (auto* content = std::get_if<content_delta>(&delta)) {
      add_text(choice, std::move(content->text), out);
      if (choice.finished) return;
    } else {
      show_held(choice, out);
      out.deltas.push_back(std::move(delta));
    }
  }
}

// What the matcher held back belongs in front of what comes next.
void generation::show_held(choice_state& choice, api::choice_event& out) {
  if (auto rest = choice.matcher.finish(); !rest.empty())
    out.deltas.emplace_back(content_delta{std::move(rest)});
}

void generation::take_finish(choice_state& choice, engine::finish_reason reason, api::choice_event& out) {
  if (reason == engine::finish_reason::failed || reason == engine::finish_reason::cancelled) {
    failed_ = true;
    return;
  }
  if (choice.parser) {
    for (auto& delta : choice.parser->finish()) {
      if (auto* content = std::get_if<content_delta>(&delta)) {
        add_text(choice, std::move(content->text), out);
      } else {
        out.deltas.push_back(std::move(delta));
      }
    }
  } else if (auto text = choice.detokenizer.finish(); !text.empty()) {
    add_text(choice, std::move(text), out);
  }
  if (choice.finished) return;
  if (auto rest = choice.matcher.finish(); !rest.empty())
    out.deltas.emplace_back(content_delta{std::move(rest)});
  const bool called = choice.parser && choice.parser->has_tool_calls();
  if (reason == engine::finish_reason::length) {
    finish(choice, api::finish_kind::length, out);
  } else {
    finish(choice, called ? api::finish_kind::tool_calls : api::finish_kind::stop, out);
  }
}

task<result<std::vector<api::choice_event>>> generation::next(time_point deadline) {
  std::vector<api::choice_event> events;
  while (events.empty() && running_ > 0) {
    const wait_outcome outcome = co_await box_->wait(deadline);
    if (outcome == wait_outcome::cancelled) co_return fail(errc::client_gone, "cancelled");
    if (outcome == wait_outcome::timed_out) {
      co_return fail(errc::deadline_exceeded, "the engine produced no token in time");
    }
    box_->drain(mails_);
    for (auto& m : mails_) {
      auto& choice = choices_[static_cast<std::size_t>(m.choice)];
      if (choice.finished) continue;  // what came after a stop string
      api::choice_event event{.choice = m.choice};
      if (const auto* start = std::get_if<prompt_started>(&m.what)) {
        choice.cached_tokens = start->cached_tokens;
      } else if (const auto* token = std::get_if<engine::token_event>(&m.what)) {
        take_token(choice, *token, event);
      } else {
        take_finish(choice, std::get<engine::finish_reason>(m.what), event);
      }
      if (failed_) co_return fail(errc::upstream_failed, "the engine stopped this request");
      if (!event.deltas.empty() || !event.tokens.empty() || event.finish) events.push_back(std::move(event));
    }
  }
  co_return events;
}

}  // namespace weir::gateway::upstream
