#include "gateway/observe/metrics.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>

#include "gateway/version.hpp"

namespace weir::gateway::observe {

namespace {

// Seconds, from a cached short answer to a long-context one.
const prometheus::Histogram::BucketBoundaries k_seconds{
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120, 300};

const prometheus::Histogram::BucketBoundaries k_overhead_s{2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3,
                                                           5e-3, 1e-2, 2e-2, 5e-2, 0.1,  0.2,  0.5};

prometheus::Gauge& gauge(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

metrics::metrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      requests_(prometheus::BuildCounter()
                    .Name("weir_requests_total")
                    .Help("Requests answered")
                    .Register(*registry_)),
      tokens_(prometheus::BuildCounter()
                  .Name("weir_tokens_total")
                  .Help("Tokens of answered requests, by kind")
                  .Register(*registry_)),
      duration_(prometheus::BuildHistogram()
                    .Name("weir_request_duration_seconds")
                    .Help("From the complete head to the last byte")
                    .Register(*registry_)),
      first_token_(prometheus::BuildHistogram()
                       .Name("weir_time_to_first_token_seconds")
                       .Help("From the complete head to the first streamed byte")
                       .Register(*registry_)),
      reloads_(prometheus::BuildCounter()
                   .Name("weir_config_reloads_total")
                   .Help("Configuration reloads, by outcome")
                   .Register(*registry_)),
      limit_refusals_(prometheus::BuildCounter()
                          .Name("weir_limit_refusals_total")
                          .Help("Requests that the limits of their key refused, by what was exhausted")
                          .Register(*registry_)),
      attempts_(prometheus::BuildCounter()
                    .Name("weir_upstream_attempts_total")
                    .Help("Attempts at HTTP targets, by how they ended")
                    .Register(*registry_)),
      upstream_connections_(prometheus::BuildCounter()
                                .Name("weir_upstream_connections_total")
                                .Help("Connections to HTTP targets taken for an attempt, new or reused")
                                .Register(*registry_)),
      retries_(prometheus::BuildCounter()
                   .Name("weir_upstream_retries_total")
                   .Help("Requests sent again because a reused connection had been closed")
                   .Register(*registry_)),
      scrapes_(prometheus::BuildCounter()
                   .Name("weir_scrapes_total")
                   .Help("Readings of what targets publish of their load, by outcome")
                   .Register(*registry_)),
      target_load_(prometheus::BuildGauge()
                       .Name("weir_target_load")
                       .Help("What targets last said of their load, by what")
                       .Register(*registry_)),
      genai_(*registry_),
      overhead_(&prometheus::BuildHistogram()
                     .Name("weir_gateway_overhead_seconds")
                     .Help("From a request's last byte until a target has it, but for waiting for a place")
                     .Register(*registry_)
                     .Add({}, k_overhead_s)),
      in_flight_(&gauge(*registry_, "weir_requests_in_flight", "Requests being answered")),
      connections_(&gauge(*registry_, "weir_connections", "Open client connections")),
      body_bytes_(&gauge(*registry_, "weir_body_bytes", "Request bodies held in memory")),
      reply_bytes_(&gauge(*registry_, "weir_reply_bytes", "Replies of HTTP targets held in memory")) {
  prometheus::BuildGauge()
      .Name("weir_build_info")
      .Help("1, labelled with the version")
      .Register(*registry_)
      .Add({{"version", k_version}})
      .Set(1);
  add_route_counters();
  auto& refused = prometheus::BuildCounter()
                      .Name("weir_connections_refused_total")
                      .Help(
                          "Client connections that were not taken, by why: limits.connections, or no file "
                          "descriptor was left")
                      .Register(*registry_);
  refused_over_limit_ = &refused.Add({{"why", "limit"}});
  refused_no_descriptors_ = &refused.Add({{"why", "descriptors"}});
  for (const auto outcome : {"applied", "refused"}) reloads_.Add({{"outcome", outcome}});
  for (const auto kind : {"requests", "tokens", "budget", "never_fits", "ledger"}) {
    limit_refusals_.Add({{"kind", kind}});
  }
}

void metrics::add_route_counters() {
  auto& keyed = prometheus::BuildCounter()
                    .Name("weir_prompts_keyed_total")
                    .Help("Prompts, by how their prefix was identified: exact tokens, text, or not at all")
                    .Register(*registry_);
  for (std::size_t i = 0; i < k_keyed_how.size(); ++i) {
    route_.keyed[i] = &keyed.Add({{"how", std::string(k_keyed_how[i])}});
  }
  auto& reuse = prometheus::BuildCounter()
                    .Name("weir_prefix_tokens_total")
                    .Help(
                        "Of requests whose target reported cached_tokens: prompt tokens, reuse predicted and "
                        "reported, and the sum of differences")
                    .Register(*registry_);
  route_.prompt_tokens = &reuse.Add({{"kind", "prompt"}});
  route_.predicted_tokens = &reuse.Add({{"kind", "predicted"}});
  route_.cached_tokens = &reuse.Add({{"kind", "cached"}});
  route_.error_tokens = &reuse.Add({{"kind", "error"}});
  route_.waited = &prometheus::BuildCounter()
                       .Name("weir_placements_waited_total")
                       .Help("Requests that waited at the gateway for a target to get free")
                       .Register(*registry_)
                       .Add({});
  route_.waiting = &prometheus::BuildGauge()
                        .Name("weir_requests_waiting")
                        .Help("Requests that wait at the gateway for a target to get free")
                        .Register(*registry_)
                        .Add({});
  auto& shed = prometheus::BuildCounter()
                   .Name("weir_requests_shed_total")
                   .Help("Requests refused with 503 because too many wait, by why")
                   .Register(*registry_);
  for (std::size_t i = 0; i < k_shed_why.size(); ++i) {
    route_.shed[i] = &shed.Add({{"why", std::string(k_shed_why[i])}});
  }
  auto& failed = prometheus::BuildCounter()
                     .Name("weir_attempt_failures_total")
                     .Help("Attempts at targets that had no content, by what they died of")
                     .Register(*registry_);
  for (std::size_t i = 0; i < route_.failures.size(); ++i) {
    const auto kind = static_cast<policy::failover::failure_kind>(i);
    route_.failures[i] = &failed.Add({{"kind", std::string(policy::failover::to_text(kind))}});
  }
  const auto counter = [this](std::string_view name, std::string_view help) {
    return &prometheus::BuildCounter()
                .Name(std::string(name))
                .Help(std::string(help))
                .Register(*registry_)
                .Add({});
  };
  route_.retries = counter("weir_request_retries_total", "Attempts behind the first, at another target");
  route_.hedges = counter("weir_request_hedges_total", "Attempts beside the first, which had no content yet");
  route_.hedges_won =
      counter("weir_request_hedges_won_total", "Attempts beside the first that had content before it");
  route_.retries_denied = counter("weir_request_retries_denied_total",
                                  "Requests that ended since failover.retry_percent was used up");
  route_.hedges_denied = counter("weir_request_hedges_denied_total",
                                 "Requests that waited on since failover.hedge_percent was used up");
  const prometheus::Histogram::BucketBoundaries decision_s{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3,
                                                           2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,  0.5};
  route_.decision_s = &prometheus::BuildHistogram()
                           .Name("weir_route_decision_seconds")
                           .Help("Identifying the prompt, looking it up and choosing, without waiting")
                           .Register(*registry_)
                           .Add({}, decision_s);
}

const metrics::request_series& metrics::series_of(const request_numbers& n) {
  const std::lock_guard lock(series_mutex_);
  const auto known = series_.find(label_view{n.endpoint, n.model, n.status});
  if (known != series_.end()) return known->second;
  const std::string endpoint(n.endpoint);
  const std::string model(n.model);
  const auto status = std::to_string(n.status);
  const request_series made{
      .requests = &requests_.Add({{"endpoint", endpoint}, {"model", model}, {"status", status}}),
      .duration = &duration_.Add({{"endpoint", endpoint}, {"model", model}}, k_seconds),
      .first_token = &first_token_.Add({{"endpoint", endpoint}, {"model", model}}, k_seconds),
      .prompt_tokens = &tokens_.Add({{"model", model}, {"kind", "prompt"}}),
      .completion_tokens = &tokens_.Add({{"model", model}, {"kind", "completion"}})};
  return series_.emplace(label_key{endpoint, model, n.status}, made).first->second;
}

void metrics::request_ended(const request_numbers& n) {
  in_flight_->Decrement();
  const request_series& series = series_of(n);
  series.requests->Increment();
  series.duration->Observe(n.duration_s);
  if (n.first_token_s >= 0) series.first_token->Observe(n.first_token_s);
  if (n.prompt_tokens > 0) series.prompt_tokens->Increment(static_cast<double>(n.prompt_tokens));
  if (n.completion_tokens > 0) series.completion_tokens->Increment(static_cast<double>(n.completion_tokens));
  if (n.overhead_s >= 0) overhead_->Observe(n.overhead_s);
  genai_.observe({.endpoint = n.endpoint,
                  .provider = n.provider,
                  .model = n.model,
                  .status = n.status,
                  .duration_s = n.duration_s,
                  .first_token_s = n.first_token_s,
                  .per_token_s = n.per_token_s,
                  .prompt_tokens = n.prompt_tokens,
                  .completion_tokens = n.completion_tokens});
}

upstream_counters metrics::upstream(const std::string& target) {
  upstream_counters out;
  for (std::size_t i = 0; i < out.attempts.size(); ++i) {
    out.attempts[i] = &attempts_.Add({{"target", target}, {"outcome", std::string(k_attempt_outcomes[i])}});
  }
  out.connections_new = &upstream_connections_.Add({{"target", target}, {"kind", "new"}});
  out.connections_reused = &upstream_connections_.Add({{"target", target}, {"kind", "reused"}});
  out.retries = &retries_.Add({{"target", target}});
  return out;
}

scrape_counters metrics::scrapes(const std::string& target) {
  const auto load = [&](const char* what) { return &target_load_.Add({{"target", target}, {"what", what}}); };
  return {.ok = &scrapes_.Add({{"target", target}, {"outcome", "ok"}}),
          .failed = &scrapes_.Add({{"target", target}, {"outcome", "failed"}}),
          .running = load("running"),
          .waiting = load("waiting"),
          .waiting_uncached_tokens = load("waiting_uncached_tokens"),
          .capacity_tokens = load("capacity_tokens")};
}

shared_counters metrics::shared() {
  const auto counter = [&](const char* name, const char* help) -> prometheus::Family<prometheus::Counter>& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_);
  };
  shared_counters out;
  out.up = &gauge(*registry_, "weir_shared_limits_up", "1: the store of shared limits answers");
  out.commands = &counter("weir_shared_commands_total", "Commands sent to the store").Add({});
  auto& leased = counter("weir_shared_leased_total", "What the store granted to this gateway, by what");
  for (std::size_t i = 0; i < k_leased_what.size(); ++i) {
    out.leased[i] = &leased.Add({{"what", std::string(k_leased_what[i])}});
  }
  out.waits = &counter("weir_shared_waits_total", "Waits of requests for an answer of the store").Add({});
  auto& failures =
      counter("weir_shared_failures_total",
              "The store could not be reached, failed at a command, or let a request wait too long");
  for (std::size_t i = 0; i < k_shared_failures.size(); ++i) {
    out.failures[i] = &failures.Add({{"what", std::string(k_shared_failures[i])}});
  }
  out.epochs = &counter("weir_shared_epochs_total", "Times that the store had lost what it knew").Add({});
  return out;
}

void metrics::reload_done(bool ok) {
  reloads_.Add({{"outcome", ok ? "applied" : "refused"}}).Increment();
}

void metrics::set_refused(std::uint64_t over_limit, std::uint64_t no_descriptors) {
  const auto raise = [](prometheus::Counter& counter, std::uint64_t total) {
    counter.Increment(std::max(0.0, static_cast<double>(total) - counter.Value()));
  };
  raise(*refused_over_limit_, over_limit);
  raise(*refused_no_descriptors_, no_descriptors);
}

void metrics::limit_refused(errc code) {
  const char* kind = nullptr;
  switch (code) {
    case errc::requests_limited:
      kind = "requests";
      break;
    case errc::tokens_limited:
      kind = "tokens";
      break;
    case errc::budget_exhausted:
      kind = "budget";
      break;
    case errc::limit_too_small:
      kind = "never_fits";
      break;
    case errc::ledger_unavailable:
      kind = "ledger";
      break;
    default:
      return;
  }
  limit_refusals_.Add({{"kind", kind}}).Increment();
}

std::string metrics::text(std::vector<prometheus::MetricFamily> more) const {
  auto families = registry_->Collect();
  std::move(more.begin(), more.end(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace weir::gateway::observe
