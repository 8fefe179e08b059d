#include "gateway/upstream/http_upstream.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/this_coro.hpp>
#include <iterator>

#include "gateway/api/body_edit.hpp"
#include "gateway/http/syntax.hpp"
#include "gateway/observe/genai_metrics.hpp"
#include "gateway/upstream/client_pool.hpp"
#include "gateway/upstream/dial.hpp"
#include "gateway/upstream/dialect.hpp"
#include "gateway/upstream/error_reply.hpp"
#include "gateway/upstream/http_exchange.hpp"
#include "gateway/upstream/http_response.hpp"
#include "gateway/version.hpp"

namespace weir::gateway::upstream {

namespace {

using observe::attempt_outcome;
using std::chrono::milliseconds;

milliseconds or_general(std::int64_t own_ms, milliseconds general) {
  return own_ms > 0 ? milliseconds(own_ms) : general;
}

class http_upstream final : public upstream {
 public:
  http_upstream(std::shared_ptr<const origin> target, reply_limits limits, http::byte_budget& budget)
      : target_(std::move(target)),
        limits_(limits),
        budget_(budget),
        dialect_(to_dialect(target_->config.dialect)),
        endpoints_(endpoints_of(target_->config)) {
    fixed_head_ = fmt::format("host: {}\r\nuser-agent: weir/{}\r\ncontent-type: application/json\r\n",
                              target_->url.authority, k_version);
  }

  policy::target_view view() const noexcept override {
    const auto& config = target_->config;
    const auto free_places = config.connections - target_->in_flight->load(std::memory_order_relaxed);
    return {.name = target_->name,
            .context_tokens = config.context_tokens,
            .ready = true,
            .full = free_places <= 0,
            .free_places = static_cast<std::int32_t>(free_places),
            .set_aside = target_->has_usable_key() ? policy::aside::no : policy::aside::failing,
            .endpoints = endpoints_,
            .takes_images = config.images,
            .structured_output = config.structured_output,
            .forced_tools = config.forced_tools};
  }

  std::string_view provider() const noexcept override {
    return observe::provider_of(target_->config.dialect);
  }

  time_limits limits(const time_limits& general) const noexcept override {
    const auto& config = target_->config;
    return {.whole = or_general(config.request_timeout_ms, general.whole),
            .first_token = or_general(config.first_token_timeout_ms, general.first_token),
            .inter_token = or_general(config.inter_token_timeout_ms, general.inter_token)};
  }

  task<started> start(dispatch request) override {
    auto slot = std::make_unique<attempt_slot>(target_);
    if (!slot->admitted()) {
      co_return std::unexpected(attempt_failure{
          .why = {errc::overloaded, fmt::format("target '{}' has no free connection", target_->name), {}},
          .how = policy::failover::ending::no_place});
    }
    const auto* key = target_->next_key();
    slot->use(key);
    const auto& call = *request.call;
    const auto& wanted = target_->config.model.empty() ? std::string_view(request.model)
                                                       : std::string_view(target_->config.model);
    const bool ask_usage = call.stream && !call.include_usage;
    auto said = say(request, wanted, ask_usage);
    if (!said) {
      slot->end(attempt_outcome::client_error);
      co_return std::unexpected(to_failure(std::move(said.error())));
    }
    const auto* as_asked = said_as_asked(dialect_, call);
    const std::string& body = *said ? **said : as_asked != nullptr ? *as_asked : call.body;
    const std::string head = format_head(call, key, request, body.size());
    const auto how = request.may_move ? patience::while_alive : patience::until_deadline;
    const io_executor executor = co_await asio::this_coro::executor;
    bool nobody_asks = false;
    bool& at_work = request.sent != nullptr ? *request.sent : nobody_asks;
    const wire_request out{
        .head = head, .body = body, .deadline = request.deadline, .how = how, .once = request.once};
    auto sent = co_await send(*slot, executor, out, at_work);
    if (!sent) co_return std::unexpected(std::move(sent.error()));
    auto& [link, start] = *sent;
    const bool success = start.status >= 200 && start.status <= 299;
    at_work = success;
    if (!success && !passes_to_client(start.status)) tell_misconfigured(start.status, call, wanted);
    const bool events =
        call.stream && start.status == 200 && !http::is_media_type(start.content_type, "application/json");
    reply_parts parts{
        std::move(slot),    std::move(link), std::move(start), how, translator_of(call, wanted, events),
        as_asked != nullptr};
    if (events) co_return make_event_response(std::move(parts), limits_, budget_, ask_usage, shape_of(call));
    co_return make_body_response(std::move(parts), limits_, budget_);
  }

 private:
  using answered = std::pair<held_link, reply_start>;
  struct wire_request {
    std::string_view head;
    std::string_view body;
    time_point deadline;
    patience how;
    bool once;
  };

  std::unique_ptr<reply_translator> translator_of(const api::generation_call& call, std::string_view wanted,
                                                  bool events) const {
    if (said_as_asked(dialect_, call) == nullptr) return make_translator(dialect_, call.facts.asks, wanted);
    return events ? nullptr : make_error_translator();
  }

  relay::event_shape shape_of(const api::generation_call& call) const noexcept {
    if (said_as_asked(dialect_, call) != nullptr) return relay::event_shape::messages;
    return call.kind == api::generation_kind::responses ? relay::event_shape::responses
                                                        : relay::event_shape::chunks;
  }

  // The body to send; nothing: the client's own.
  result<std::optional<std::string>> say(const dispatch& request, std::string_view wanted,
                                         bool ask_usage) const {
    const auto& call = *request.call;
    std::optional<std::string> edited;
    if (const auto* as_asked = said_as_asked(dialect_, call)) {
      std::vector<api::body_member> bound;
      if (request.output_tokens_max > 0) {
        bound.push_back({"max_tokens", std::to_string(request.output_tokens_max)});
      }
      return api::edit_body(*as_asked, call.model == wanted ? std::string_view() : wanted, false, bound);
    }
    if (!is_said_anew(dialect_)) {
      std::vector<api::body_member> bounded;
      edited = api::edit_body(call.body, call.model == wanted ? std::string_view() : wanted, ask_usage,
                              members_of(request, bounded));
    }
    if (dialect_ == dialect::openai) return edited;
    const wanted_request there{.model = wanted, .output_tokens_max = request.output_tokens_max};
    auto said = say_request(target_->config, call.facts.asks, edited ? *edited : call.body, there);
    if (said && !*said) return edited;
    return said;
  }

  // What the body carries: with a bound on the answer, in `bounded`, else as it is. Nothing in it may say
  // another bound.
  static std::span<const api::body_member> members_of(const dispatch& request,
                                                      std::vector<api::body_member>& bounded) {
    using api::generation_kind;
    const auto kind = request.call->kind;
    const bool kept = kind == generation_kind::responses;
    if (request.output_tokens_max == 0 && !kept) return request.members;
    bounded.assign(request.members.begin(), request.members.end());
    // Nobody could fetch or delete there what is kept, and other tenants might.
    if (kept) bounded.push_back({"store", "false"});
    if (request.output_tokens_max == 0) return bounded;
    const std::string_view known = kept                            ? "max_output_tokens"
                                   : kind == generation_kind::chat ? "max_completion_tokens"
                                                                   : "max_tokens";
    const auto bound = std::to_string(request.output_tokens_max);
    bounded.push_back({std::string(known), bound});
    for (const auto field : request.call->loose_fields) {
      if (field != known) bounded.push_back({std::string(field), bound});
    }
    return bounded;
  }

  // One that is only late does; one that closed the connection does not.
  static bool may_work(const std::expected<reply_start, exchange_failure>& reply) noexcept {
    return reply || reply.error().outcome == attempt_outcome::timeout;
  }

  std::string format_head(const api::generation_call& call, const upstream_key* key, const dispatch& request,
                          std::size_t body_bytes) const {
    std::string out = fmt::format("POST {}{} HTTP/1.1\r\n{}", target_->url.path,
                                  path_of(dialect_, call.facts.asks), fixed_head_);
    out += version_lines(dialect_, call);
    out += request.trace_lines;
    if (key != nullptr) out += credential_lines(dialect_, key->text);
    fmt::format_to(std::back_inserter(out), "accept: {}\r\nx-request-id: {}\r\ncontent-length: {}\r\n\r\n",
                   call.stream ? "text/event-stream" : "application/json", request.request_id, body_bytes);
    return out;
  }

  static std::string more_of(std::uint64_t unsaid) {
    return unsaid == 0 ? "" : fmt::format("; {} more failures since the last line", unsaid);
  }

  void tell_misconfigured(int status, const api::generation_call& call, std::string_view wanted) const {
    const auto unsaid = target_->misconfigured.failed(std::chrono::steady_clock::now());
    if (!unsaid) return;
    spdlog::warn(
        "target '{}' answered {} to POST {}{} for model '{}': check its base_url, model and api_key_file{}",
        target_->name, status, target_->url.path, path_of(dialect_, call.facts.asks), wanted,
        more_of(*unsaid));
  }

  static attempt_failure to_attempt_failure(exchange_failure failed) {
    return {.why = std::move(failed.why), .how = failed.how};
  }

  attempt_failure not_dialed(attempt_slot& slot, error why) const {
    using policy::failover::ending;
    if (why.code == errc::upstream_failed) {
      if (const auto unsaid = target_->unreachable.failed(std::chrono::steady_clock::now())) {
        spdlog::warn("{} (at {}){}", why.message, target_->url.authority, more_of(*unsaid));
      }
    }
    if (why.code == errc::overloaded) return to_failure(std::move(why));
    const bool late = why.code == errc::deadline_exceeded;
    slot.end(late ? attempt_outcome::timeout : attempt_outcome::connect_failed);
    return {.why = std::move(why), .how = ending::dial_failed};
  }

  // A pooled connection may have been closed by the target a moment ago. Where it turns out so before a byte
  // came back, a fresh one gets the request, once.
  task<std::expected<answered, attempt_failure>> send(attempt_slot& slot, io_executor executor,
                                                      const wire_request& out, bool& at_work) {
    const auto& [head, body, deadline, how, once] = out;
    held_link link(client_pool::of(executor).take(*target_));
    if (link) {
      target_->counters.connections_reused->Increment();
      at_work = true;
      auto reply = co_await exchange_heads(*link, target_, head, body, deadline, how);
      at_work = may_work(reply);
      if (reply) co_return answered(std::move(link), std::move(*reply));
      if (!reply.error().stale) {
        slot.end(reply.error().outcome);
        co_return std::unexpected(to_attempt_failure(std::move(reply.error())));
      }
      if (once) {
        auto failed = to_attempt_failure(std::move(reply.error()));
        failed.how = policy::failover::ending::reset_reused;
        co_return std::unexpected(std::move(failed));
      }
      target_->counters.retries->Increment();
    }
    auto dialed = co_await dial(target_, deadline);
    if (!dialed) co_return std::unexpected(not_dialed(slot, std::move(dialed.error())));
    if (const auto unsaid = target_->unreachable.recovered()) {
      spdlog::info("target '{}' is reached again{}", target_->name, more_of(*unsaid));
    }
    target_->counters.connections_new->Increment();
    link = held_link(std::move(*dialed));
    at_work = true;
    auto reply = co_await exchange_heads(*link, target_, head, body, deadline, how);
    at_work = may_work(reply);
    if (reply) co_return answered(std::move(link), std::move(*reply));
    slot.end(reply.error().outcome);
    co_return std::unexpected(to_attempt_failure(std::move(reply.error())));
  }

  std::shared_ptr<const origin> target_;
  reply_limits limits_;
  http::byte_budget& budget_;
  const dialect dialect_;
  const policy::endpoint_set endpoints_;
  std::string fixed_head_;  // fields that are the same in every request
};

}  // namespace

std::shared_ptr<upstream> make_http_upstream(std::shared_ptr<const origin> target, reply_limits limits,
                                             http::byte_budget& budget) {
  return std::make_shared<http_upstream>(std::move(target), limits, budget);
}

}  // namespace weir::gateway::upstream
