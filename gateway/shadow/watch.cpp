#include "gateway/shadow/watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/shadow/hub.hpp"
#include "policy/comparison/sampling.hpp"
#include "policy/mix.hpp"

namespace weir::gateway::shadow {

namespace {

using observe::shadow_drop;
using policy::comparison::side_end;
using std::chrono::steady_clock;

// Of a whole answer what is not its text: names, usage, log probabilities.
constexpr std::size_t k_body_beside_text = 64 << 10;
constexpr int k_server_error = 500;

bool is_compared(api::generation_kind kind) {
  return kind == api::generation_kind::chat || kind == api::generation_kind::completions;
}

// Not the client's, which may say something; the same one gives the same.
std::string copy_id(std::string_view request_id, std::uint64_t seed) {
  std::uint64_t sum = policy::mix(seed + 1);
  for (const char c : request_id) sum = policy::mix(sum ^ static_cast<unsigned char>(c));
  return fmt::format("shadow-{:016x}", sum);
}

std::int64_t ns_between(steady_clock::time_point from, steady_clock::time_point to) {
  return std::max<std::int64_t>(0, std::chrono::nanoseconds(to - from).count());
}

// Null: not chosen, or there is no room for it.
std::unique_ptr<copy_job> choose(const api::request_context& context, const model_entry& entry,
                                 const std::shared_ptr<const api::generation_call>& call) {
  const auto& to = entry.shadow;
  if (!to || !is_compared(call->kind) || !context.caller.terms->shadow) return nullptr;
  if (context.state.shadows.is_cut() || context.state.draining) return nullptr;
  const auto id = context.exchange.request_id();
  if (!policy::comparison::is_sampled(id, to->seed, to->terms.share)) return nullptr;
  const auto drop = [&to](shadow_drop why) {
    to->counters.drop(why);
    return nullptr;
  };
  if (context.caller.terms->residency == auth::residency::local_only) return drop(shadow_drop::local_only);
  const auto body_bytes = call->body.size();
  if (body_bytes > static_cast<std::size_t>(to->terms.body_bytes)) return drop(shadow_drop::too_large);
  auto job = std::make_unique<copy_job>(to);
  const auto answer_bytes = static_cast<std::size_t>(to->terms.answer_bytes);
  if (!job->held.grow_to(body_bytes + answer_bytes)) return drop(shadow_drop::memory);
  job->call = call;
  job->request_id = copy_id(id, to->seed);
  job->pair.model = entry.name;
  job->pair.tenant = context.caller.tenant;
  job->pair.key = context.caller.name;
  job->pair.streamed = call->stream;
  job->pair.shadow.target = to->terms.target;
  return job;
}

}  // namespace

watch::watch(api::request_context& context, const model_entry& entry,
             const std::shared_ptr<const api::generation_call>& call, std::int64_t output_tokens_max,
             const io_executor& executor)
    : context_(context), entry_(entry), executor_(executor), job_(choose(context, entry, call)) {
  if (!job_) return;
  job_->output_tokens_max = output_tokens_max;
  gathered_.emplace(static_cast<std::size_t>(job_->to->terms.answer_bytes));
  since_ = steady_clock::now();
}

watch::~watch() {
  if (job_) job_->to->counters.drop(shadow_drop::unanswered);
}

void watch::gather(std::string_view events) {
  if (events.empty()) return;
  if (first_ == steady_clock::time_point{}) first_ = came_;
  gathered_->push(events, came_);
}

void watch::keep_body(std::string_view body) {
  came_ = steady_clock::now();
  const auto bytes_max = static_cast<std::size_t>(job_->to->terms.answer_bytes) + k_body_beside_text;
  const auto held = job_->call->body.size() + static_cast<std::size_t>(job_->to->terms.answer_bytes);
  job_->comparable = body.size() <= bytes_max && job_->held.grow_to(held + body.size());
  if (job_->comparable) job_->primary_body.emplace(body);
}

void watch::finish(const route::attempt& at, const upstream::response& response, side_end how) {
  auto& side = job_->pair.primary;
  const auto begun = at.begun();
  side.target = at.choice().name;
  side.end = how;
  side.status = response.head().status;
  count_usage(side, response.usage(), response.shown(), entry_.prices[at.target_index()]);
  if (first_ != steady_clock::time_point{}) side.ttft_ns = ns_between(begun, first_);
  side.end_to_end_ns = ns_between(begun, came_);
  count_times(side, *gathered_);
  if (!job_->primary_body) job_->primary = gathered_->take();
  begin();
}

void watch::finish_unanswered(const error& why, int status) {
  const auto& target = context_.probe.target();
  const int got = status > 0 ? status : info(why.code).status;
  // What is the client's own fault shows nothing of a target, nor does a request that none was given.
  if (got < k_server_error || target.empty()) return;
  auto& side = job_->pair.primary;
  side.target = target;
  side.status = status;
  side.end = why.code == errc::deadline_exceeded ? side_end::timed_out : side_end::failed;
  side.end_to_end_ns = ns_between(since_, steady_clock::now());
  begin();
}

void watch::begin() {
  auto job = std::move(job_);
  if (job->pair.primary.target == job->to->terms.target) {
    return job->to->counters.drop(shadow_drop::same_target);
  }
  context_.state.shadows.begin(executor_, std::move(job));
}

}  // namespace weir::gateway::shadow
