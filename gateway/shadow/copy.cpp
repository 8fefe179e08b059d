#include "gateway/shadow/copy.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <ctime>
#include <utility>

#include "gateway/ledger/ledger.hpp"
#include "gateway/shadow/agree.hpp"
#include "gateway/shadow/hub.hpp"
#include "gateway/shadow/redact.hpp"
#include "gateway/task_group.hpp"
#include "gateway/upstream/offload.hpp"

namespace weir::gateway::shadow {

namespace {

using observe::shadow_drop;
using policy::comparison::side;
using policy::comparison::side_end;
using policy::failover::ending;
using policy::failover::failure_kind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view k_id_prefix = "shadow-";
constexpr milliseconds k_settle{200};  // for the end of a body behind its last event

std::int64_t ns_between(upstream::time_point from, upstream::time_point to) {
  return std::max<std::int64_t>(0, std::chrono::nanoseconds(to - from).count());
}

std::string excerpt_of(const answer& whole) {
  std::string out = whole.text;
  for (const auto& call : whole.calls) out += "\n" + call.name + "(" + call.arguments + ")";
  return std::string(first_bytes(out, ledger::k_excerpt_bytes_max));
}

// Counts the copy as running.
class place {
 public:
  explicit place(const destination& of) : of_(of), others_(of.in_flight.fetch_add(1)) {
    of_.counters.in_flight->Increment();
  }
  ~place() {
    of_.in_flight.fetch_sub(1);
    of_.counters.in_flight->Decrement();
  }
  place(const place&) = delete;
  place& operator=(const place&) = delete;
  bool is_free() const { return others_ < of_.terms.in_flight; }

 private:
  const destination& of_;
  std::int64_t others_;
};

// What the target may get: the request without what must not leave, always as a stream.
result<api::generation_call> prepare(const copy_job& job) {
  auto body = redact(job.call->body, job.to->redacted);
  if (!job.call->stream) {
    const api::body_member stream{"stream", "true"};
    if (auto edited = api::edit_body(body, {}, false, std::span(&stream, 1))) body = std::move(*edited);
  }
  return api::read_generation_call(job.call->kind, std::move(body));
}

// The target's answer, as far as it came.
struct received {
  std::optional<upstream::attempt_failure> failure;
  bool after_content = false;
};

upstream::attempt_failure endless() {
  return {.why = {errc::deadline_exceeded, "the answer has no end", {}}, .how = ending::stream_cut};
}

task<received> receive(upstream::response& response, upstream::time_point begun,
                       upstream::time_point deadline, answer_gatherer& into, side& to) {
  received out;
  const io_executor executor = co_await asio::this_coro::executor;
  while (true) {
    // A target that always has more to say does not keep the thread from clients.
    co_await asio::post(executor, use_task);
    auto piece = co_await response.next(deadline);
    const auto now = steady_clock::now();
    if (!piece) {
      out.failure = response.failure();
      to.end_to_end_ns = ns_between(begun, now);
      co_return out;
    }
    if (piece->empty()) break;
    to.end_to_end_ns = ns_between(begun, now);
    if (response.head().events) {
      if (!out.after_content) to.ttft_ns = ns_between(begun, now);
      into.push(*piece, now);
    } else {
      into.push_whole(*piece);
    }
    out.after_content = true;
    if (response.complete()) break;
    if (now >= deadline) {
      out.failure = endless();
      co_return out;
    }
  }
  co_return out;
}

failure_kind kind_of(const upstream::attempt_failure& failure, bool after_content) {
  return policy::failover::classify(
      {.how = failure.how,
       .after_content = after_content,
       .status = failure.status,
       .code = failure.code,
       .type = failure.type,
       .message = failure.message.empty() ? failure.why.message : failure.message});
}

// Nothing: the end says nothing about the target, and there is no pair.
std::optional<shadow_drop> no_pair(ending how) {
  if (how == ending::no_place) return shadow_drop::busy;
  if (how == ending::reset_reused) return shadow_drop::stale;
  if (how == ending::unsupported) return shadow_drop::unsupported;
  if (how == ending::cancelled) return shadow_drop::memory;  // its replies hold too much
  return std::nullopt;
}

struct sent_copy {
  copy_job& job;
  answer_gatherer& gathered;
  route::health_use& health;
};

// Whether there is a pair.
task<bool> send(sent_copy copy, std::shared_ptr<const api::generation_call> call) {
  auto& job = copy.job;
  const auto& to = *job.to;
  auto& shadow = job.pair.shadow;
  const auto begun = steady_clock::now();
  const auto deadline = begun + milliseconds(to.terms.timeout_ms);
  upstream::dispatch dispatch{.call = call,
                              .model = to.terms.model,
                              .id_prefix = k_id_prefix,
                              .request_id = job.request_id,
                              .members = {},
                              .output_tokens_max = job.output_tokens_max,
                              .deadline = deadline,
                              .once = true};
  to.counters.sent->Increment();
  auto started = co_await to.target->start(std::move(dispatch));
  received got;
  if (started) {
    auto& response = **started;
    got = co_await receive(response, begun, deadline, copy.gathered, shadow);
    shadow.status = response.head().status;
    count_usage(shadow, response.usage(), response.shown(), to.prices);
    if (!got.failure) co_await response.settle(steady_clock::now() + k_settle);
  } else {
    got.failure = std::move(started.error());
    shadow.end_to_end_ns = ns_between(begun, steady_clock::now());
  }
  if (!got.failure) {
    copy.health.end(policy::failover::breaker_effect::success);
    count_times(shadow, copy.gathered);
    co_return true;
  }
  if (const auto why = no_pair(got.failure->how)) {
    to.counters.drop(*why);
    co_return false;
  }
  const auto kind = kind_of(*got.failure, got.after_content);
  copy.health.end(policy::failover::traits_of(kind).breaker);
  shadow.end = to_side_end(kind, got.after_content);
  if (got.failure->status > 0) shadow.status = got.failure->status;
  co_return true;
}

void compare_answers(copy_job& job, answer shadow) {
  using policy::comparison::side_end;
  auto& pair = job.pair;
  if (job.primary_body) {
    answer_gatherer whole(static_cast<std::size_t>(job.to->terms.answer_bytes));
    whole.push_whole(*job.primary_body);
    job.primary = whole.take();
  }
  const bool both = pair.primary.end == side_end::ok && pair.shadow.end == side_end::ok;
  if (both && job.comparable) pair.alike = agree(job.primary, shadow);
  if (!job.to->terms.keep_text) return;
  pair.primary.excerpt = excerpt_of(job.primary);
  pair.shadow.excerpt = excerpt_of(shadow);
}

void keep(hub& owner, copy_job& job) {
  const auto& counters = job.to->counters;
  counters.usd->Increment(policy::limits::to_usd(job.pair.shadow.price));
  job.pair.at_s = std::time(nullptr);
  const bool taken = owner.pairs() != nullptr && owner.pairs()->add(std::move(job.pair)).has_value();
  if (taken) counters.pairs->Increment();
  if (!taken) counters.drop(shadow_drop::ledger);
}

// Whether the target may be asked, of those reasons that hold when the primary is done.
std::optional<shadow_drop> refused(const destination& to, const place& taken) {
  constexpr std::int64_t k_second_ns = 1'000'000'000;
  if (!taken.is_free()) return shadow_drop::busy;
  if (!to.health.look(route::now_ns()).usable) return shadow_drop::breaker;
  const policy::limits::rate rate{.limit = to.terms.requests_per_s, .window_ns = k_second_ns};
  if (!to.rate.take(rate, 1, route::now_ns()).allowed) return shadow_drop::rate;
  return std::nullopt;
}

task<void> run(hub& owner, copy_job& job) {
  const auto& to = *job.to;
  const place taken(to);
  if (const auto why = refused(to, taken)) {
    to.counters.drop(*why);
    co_return;
  }
  const auto whole = job.primary_body ? job.primary_body->size() : 0;
  const auto answers = 2 * static_cast<std::size_t>(to.terms.answer_bytes) + whole;
  if (!job.held.grow_to(k_body_stages * job.call->body.size() + answers)) {
    to.counters.drop(shadow_drop::memory);
    co_return;
  }
  auto& workers = owner.workers();
  const auto preparing = [&job] { return prepare(job); };
  auto prepared = co_await upstream::offload(workers, preparing);
  if (!prepared) {
    to.counters.drop(shadow_drop::unsupported);
    co_return;
  }
  auto call = std::make_shared<const api::generation_call>(std::move(*prepared));
  job.call.reset();
  answer_gatherer gathered(static_cast<std::size_t>(to.terms.answer_bytes));
  route::health_use health(to.health);
  const sent_copy copy{job, gathered, health};
  const bool is_pair = co_await send(copy, std::move(call));
  if (!is_pair) co_return;
  const auto comparing = [&] {
    compare_answers(job, gathered.take());
    return true;
  };
  co_await upstream::offload(workers, comparing);
  keep(owner, job);
}

}  // namespace

void count_usage(side& to, const api::token_usage& usage, const api::shown_output& shown,
                 const limits::target_prices& prices) {
  policy::limits::reported_usage said{.prompt_tokens = usage.prompt_tokens,
                                      .cache_read_tokens = usage.cached_tokens,
                                      .cache_write_tokens = usage.cache_write_tokens,
                                      .completion_tokens = usage.completion_tokens};
  const bool silent = said.prompt_tokens <= 0 && said.completion_tokens <= 0;
  if (silent || said.completion_tokens < 0) said.completion_tokens = shown.events;
  const bool prompt_known = !silent && said.prompt_tokens >= 0;
  if (!prompt_known) said.prompt_tokens = 0;
  const auto used = policy::limits::split(said, prices.counted);
  const auto cost = policy::limits::price(used, prices.tiers);
  to.prompt_tokens = prompt_known ? used.prompt() : policy::comparison::k_unknown;
  to.cached_tokens = usage.cached_tokens < 0 ? policy::comparison::k_unknown : used.cache_read;
  to.output_tokens = used.output;
  to.price = cost.amount;
  to.unpriced = cost.unpriced || prices.tiers.empty() || !prompt_known;
}

void count_times(side& to, const answer_gatherer& seen) {
  to.itl_median_ns = seen.median_pause_ns();
  const auto tokens = std::max(to.output_tokens, seen.events());
  if (tokens > 1 && seen.events() > 1) to.itl_mean_ns = seen.content_time().count() / (tokens - 1);
}

side_end to_side_end(failure_kind kind, bool after_content) noexcept {
  switch (kind) {
    case failure_kind::none:
      return side_end::ok;
    case failure_kind::unreachable:
      return side_end::unreachable;
    case failure_kind::too_slow:
    case failure_kind::frozen:
    case failure_kind::out_of_time:
      return side_end::timed_out;
    case failure_kind::interrupted:
    case failure_kind::stopped:
      return side_end::broken;
    case failure_kind::rate_limited:
    case failure_kind::quota_exhausted:
    case failure_kind::key_refused:
    case failure_kind::misconfigured:
    case failure_kind::context_overflow:
    case failure_kind::too_large:
    case failure_kind::unsupported:
    case failure_kind::refused:
      return side_end::refused;
    default:
      return after_content ? side_end::broken : side_end::failed;
  }
}

task<void> run_copy(hub& owner, std::unique_ptr<copy_job> job) {
  co_await accept_cancellation();
  const io_executor executor = co_await asio::this_coro::executor;
  co_await asio::post(executor, use_task);
  try {
    co_await run(owner, *job);
  } catch (const boost::system::system_error& e) {
    if (e.code() != asio::error::operation_aborted) throw;
    job->to->counters.drop(shadow_drop::shutdown);
  }
}

}  // namespace weir::gateway::shadow
