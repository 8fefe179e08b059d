// The whole configuration as plain values with visible defaults, made once by parse() and checked once by
// validate(). A loaded configuration is immutable and shared between threads behind a shared pointer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gateway/auth/key_terms.hpp"
#include "policy/rules.hpp"

namespace weir::gateway::config {

struct mark {
  int line = 0;  // 1-based; 0 where the value is a default
  int column = 0;
};

struct tls_config {
  std::filesystem::path cert_file;  // PEM chain; empty = plain HTTP
  std::filesystem::path key_file;   // PEM, 0600
  mark at;
};

struct listen_config {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0 = any free port, printed at start
  tls_config tls;
  mark at;
};

struct admin_config {
  std::filesystem::path key_file;  // 0600, one line: who may change keys; empty: nobody
  std::vector<std::string> hosts;  // Host values besides localhost and loopback addresses
  mark at;
};

struct limits_config {
  std::int64_t body_bytes = 64LL << 20;         // largest request body of any route
  std::int64_t body_budget_bytes = 1LL << 30;   // all bodies held at once; beyond it 503
  std::int64_t connections = 9500;              // open client connections; beyond it 503
  std::int64_t head_timeout_ms = 10'000;        // a request head must be complete by then
  std::int64_t body_idle_timeout_ms = 20'000;   // longest pause inside a body
  std::int64_t keep_alive_idle_ms = 75'000;     // idle connection kept
  std::int64_t write_idle_timeout_ms = 60'000;  // a client that does not read is cut
  std::int64_t request_timeout_ms = 600'000;    // an answer that is not streamed
  std::int64_t first_token_timeout_ms = 60'000;
  std::int64_t inter_token_timeout_ms = 60'000;
  std::int64_t drain_grace_ms = 600'000;  // running requests may finish for this long after SIGTERM
  std::int64_t reply_bytes = 64LL << 20;  // one whole reply of a target; beyond it 502
  std::int64_t event_bytes = 1LL << 20;   // one event of a stream; beyond it the stream ends
  std::int64_t stream_budget_bytes = 1LL
                                     << 30;   // all replies held at once; beyond it the one that grows ends
  std::int64_t default_output_tokens = 4096;  // set aside where a request names no max_tokens
  std::int64_t image_tokens = 16'384;         // set aside for each image, video or sound of a prompt
};

struct key_config {
  std::string name;  // shown in logs and metrics instead of the key
  std::string tenant;
  std::string digest;  // 64 hex digits: HMAC-SHA-256 of the key under the server secret
  auth::key_terms terms;
  mark at;
};

struct auth_config {
  bool loopback_open = false;         // clients on this machine need no key; any key they send is accepted
  std::filesystem::path secret_file;  // 0600, 32 bytes or more; needed when there are keys or a ledger
  std::string secret;                 // in place of the file, of keys that live no longer than the process
  std::filesystem::path ledger_dir;   // keys made at run time and budgets live there; empty: neither
  std::vector<key_config> keys;
  std::vector<auth::tenant_record> tenants;  // those with a weight
  mark at;
};

// Where several gateways share limits and budgets.
struct redis_config {
  std::string url;                        // redis://[user@]host[:port][/db], rediss:// for TLS; empty: none
  std::filesystem::path password_file;    // 0600
  std::filesystem::path ca_file;          // PEM; empty: the system's authorities
  std::string prefix = "weir:";           // of every key there
  std::int64_t timeout_ms = 100;          // longest that a request waits for it
  std::int64_t lease_ms = 2000;           // how long a gateway keeps what it does not use
  std::string rates_when_down = "local";  // local | refuse
  mark at;

  friend bool operator==(const redis_config& a, const redis_config& b) {
    return a.url == b.url && a.password_file == b.password_file && a.ca_file == b.ca_file &&
           a.prefix == b.prefix && a.timeout_ms == b.timeout_ms && a.lease_ms == b.lease_ms &&
           a.rates_when_down == b.rates_when_down;
  }
};

struct engine_target_config {
  std::filesystem::path model_dir;
  std::string backend = "auto";      // auto | cpu | cuda | reference
  std::string weights = "stored";    // stored | int8 | mxfp4
  std::string activations = "auto";  // auto | float32 | narrow
  std::int64_t threads = 0;          // 0 = cores - 1
  std::int64_t sequences = 64;
  std::int64_t queue = 1024;
  std::int64_t kv_bytes = 256LL << 20;
  std::int64_t memory_bytes = 0;   // that all of it must fit; 0: not checked
  std::int64_t step_tokens = 512;  // at least sequences
  double decode_stretch = 1.5;     // 0, or at least 1
  bool prefix_cache = true;
  std::int64_t unit_tokens = 64;    // a prefix is reused up to a multiple of this
  std::int64_t spacing_tokens = 0;  // 0, or a checkpoint every so many tokens: a multiple of unit_tokens
  // Of `weir engine` alone, no file has them: this process's place among those that compute the model.
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  std::string master_host;
  std::uint16_t master_port = 0;
  std::string split = "tensor";  // tensor | expert

  friend bool operator==(const engine_target_config&, const engine_target_config&) = default;
};

// A replica or hosted API over HTTP. A time of 0 takes the value of limits.
struct http_target_config {
  std::string base_url;                // https://host:8000/v1
  std::string model;                   // the name it serves under; empty: the name of our model
  std::filesystem::path api_key_file;  // a key per line, sent as bearer token in turn; read at load
  std::filesystem::path ca_file;       // PEM; empty: the system's authorities
  std::int64_t connections = 1024;     // requests at once, over all I/O threads
  std::int64_t connect_timeout_ms = 2'000;
  std::int64_t tls_timeout_ms = 5'000;
  std::int64_t request_timeout_ms = 0;
  std::int64_t first_token_timeout_ms = 0;
  std::int64_t inter_token_timeout_ms = 0;
  std::string dialect = "openai";      // openai | vllm | moonshot | anthropic
  std::vector<std::string> endpoints;  // as validate.cpp knows them; empty: as the dialect
  std::int64_t max_tokens = 4096;      // dialect anthropic: where the client names no number
  std::string thinking = "adaptive";   // dialect anthropic: adaptive | budget
  bool sampling = true;                // dialect anthropic: the model takes temperature, top_p and top_k
  std::string probe_path = "/health";  // asked of a target that is silent; any answer will do
  std::int64_t context_tokens = 0;     // 0 = not known: the target judges
  bool images = true;
  bool structured_output = true;
  bool forced_tools = true;

  friend bool operator==(const http_target_config&, const http_target_config&) = default;
};

// What a replica keeps of prompts, and how the gateway knows. Without it a target is routed to by load alone.
struct cache_config {
  bool on = false;
  std::int64_t capacity_tokens = 0;    // 0: what its metrics say
  std::int64_t checkpoint_tokens = 0;  // what a recurrent checkpoint takes of them; 0: attention-only model
  std::int64_t block_tokens = 0;       // where a prompt can be resumed: multiples of it; 0: anywhere
  std::string retention = "second_sighting";  // dense | prompt_end | second_sighting | interval
  std::int64_t interval_tokens = 0;           // of retention interval
  std::string events;  // where it publishes KV events, tcp://host:5557; empty: it does not
  std::string replay;  // where it answers for past ones
  std::string topic;
  bool salted = true;  // cache_salt keeps tenants apart; false: the operator declares it shared
  bool hints = false;  // takes weir_checkpoint_at

  friend bool operator==(const cache_config&, const cache_config&) = default;
};

// Prices of a million tokens where the prompt has at least so many.
struct price_tier_config {
  std::int64_t prompt_tokens_min = 0;
  std::optional<double> fresh_usd;
  std::optional<double> cached_usd;
  std::optional<double> cache_write_usd;
  std::optional<double> output_usd;

  friend bool operator==(const price_tier_config&, const price_tier_config&) = default;
};

// What a replica's memory and links are promised to (policy/accounts.hpp). 0: not known, and binds nobody.
struct accounts_config {
  std::int64_t memory_bytes = 0;  // of all its devices
  std::int64_t weights_bytes = 0;
  std::int64_t runtime_bytes = 0;
  std::int64_t state_slots = 0;     // sequences at once
  std::int64_t state_bytes = 0;     // of one
  std::int64_t context_tokens = 0;  // of all sequences; 0: what its metrics say
  std::int64_t page_tokens = 1;
  std::int64_t token_bytes = 0;  // of its context
  std::int64_t kept_slots = 0;   // for replicas of state
  std::int64_t kept_context_tokens = 0;
  double transfer_bytes_per_s = 0;  // of the link over which checkpoints come

  friend bool operator==(const accounts_config&, const accounts_config&) = default;
};

// What a target costs and how fast it is until that is learnt.
struct terms_config {
  bool hosted = false;  // somebody else's: traffic leaves the site, and has a price
  std::int64_t prefill_tokens_per_s = 0;
  std::int64_t ttft_base_ms = 20;
  double usd_per_hour = 3.6;              // of a replica
  std::vector<price_tier_config> prices;  // of tokens; empty: none known
  double quality = 1;
  std::int64_t metrics_interval_ms = 0;  // how often /metrics is read; 0: never
  std::string metrics_path = "/metrics";
  accounts_config accounts;

  friend bool operator==(const terms_config&, const terms_config&) = default;
};

struct target_config {
  std::string name;
  bool is_http = false;  // which of the two kinds counts
  engine_target_config engine;
  // Of an engine: metrics of each expert of each layer. A change does not load the engine anew.
  bool expert_series = false;
  http_target_config http;
  cache_config cache;
  terms_config terms;
  mark at;
};

struct model_config {
  std::string name;  // as clients ask for it
  std::vector<std::string> aliases;
  std::vector<std::string> targets;
  std::filesystem::path
      tokenizer;             // folder with the model's tokenizer; empty: the embedded engine's, or none
  std::int64_t ttft_ms = 0;  // latency contract; 0 = none
  std::int64_t itl_ms = 0;
  bool overflow_engine = true;  // the embedded engine may answer what no replica can in time
  bool overflow_hosted = true;
  bool spill_by_cost = false;  // hosted targets compete with replicas instead of relieving them
  mark at;
};

struct routing_config {
  std::string policy = "balanced";
  double value_of_time_usd_per_hour = 36;
  double credit = 0.15;
  std::int64_t hold_ms = 250;
  std::int64_t hold_max_ms = 30'000;
  std::filesystem::path state_dir;  // the site's salt and the index; empty: both end with the process
  std::int64_t index_bytes = 1LL << 30;
  std::int64_t prompt_memory_bytes = 256LL << 20;
  std::string sharing = "tenant";  // who shares cached prompts: tenant | key | site
  mark at;

  friend bool operator==(const routing_config& a, const routing_config& b) {
    return a.policy == b.policy && a.value_of_time_usd_per_hour == b.value_of_time_usd_per_hour &&
           a.credit == b.credit && a.hold_ms == b.hold_ms && a.hold_max_ms == b.hold_max_ms &&
           a.state_dir == b.state_dir && a.index_bytes == b.index_bytes &&
           a.prompt_memory_bytes == b.prompt_memory_bytes && a.sharing == b.sharing;
  }
};

// What happens when targets fail.
struct failover_config {
  std::int64_t attempts = 2;            // of a request, the first included
  std::int64_t retry_percent = 10;      // second attempts, of all requests in 10 s
  std::int64_t hedge_after_ms = 0;      // without content a second target gets the request too; 0: never
  std::int64_t hedge_percent = 2;       // of what requests of a model cost in 10 minutes, second targets may
  std::int64_t failures = 5;            // in a row until a target is not used
  std::int64_t open_ms = 30'000;        // and for how long, times the openings in a row
  std::int64_t slow_start_ms = 30'000;  // until it gets its whole share again

  friend bool operator==(const failover_config&, const failover_config&) = default;
};

// Who may wait at the gateway for a target to get free.
struct overload_config {
  std::int64_t waiting = 4096;    // requests of a model; 0: none waits
  std::int64_t wait_ms = 10'000;  // predicted; who would wait longer is refused at once

  friend bool operator==(const overload_config&, const overload_config&) = default;
};

// Where spans of requests go, over OTLP/HTTP.
struct tracing_config {
  std::string endpoint;  // https://collector:4318; empty: nowhere
  std::string path = "/v1/traces";
  double sample = 0.01;              // of requests that no caller decided about
  std::filesystem::path token_file;  // sent as bearer token
  mark at;

  friend bool operator==(const tracing_config& a, const tracing_config& b) {
    return a.endpoint == b.endpoint && a.path == b.path && a.sample == b.sample &&
           a.token_file == b.token_file;
  }
};

// Sampled copies of a model's requests to another target, each after its answer has gone out.
struct shadow_copy_config {
  std::string model;
  std::string target;
  double share = 0.05;                     // of the requests of keys that allow it
  std::int64_t requests_per_s = 2;         // beyond it none is copied
  std::int64_t in_flight = 8;              // copies at once
  std::int64_t memory_bytes = 64LL << 20;  // that all of them hold
  std::int64_t body_bytes = 1LL << 20;     // larger requests are not copied
  std::int64_t answer_bytes = 64LL << 10;  // of each answer that are compared
  std::int64_t timeout_ms = 120'000;       // from its start to its end
  bool keep_text = false;                  // the begin of both answers goes to the ledger
  std::vector<std::string> redact{"user", "metadata", "safety_identifier", "prompt_cache_key"};
  mark at;

  friend bool operator==(const shadow_copy_config& a, const shadow_copy_config& b) {
    return a.model == b.model && a.target == b.target && a.share == b.share &&
           a.requests_per_s == b.requests_per_s && a.in_flight == b.in_flight &&
           a.memory_bytes == b.memory_bytes && a.body_bytes == b.body_bytes &&
           a.answer_bytes == b.answer_bytes && a.timeout_ms == b.timeout_ms && a.keep_text == b.keep_text &&
           a.redact == b.redact;
  }
};

struct shadow_config {
  std::int64_t keep_pairs = 20'000;  // of all copies
  std::int64_t keep_days = 30;
  std::int64_t seed = 0;  // of the choice which requests are copied
  std::vector<shadow_copy_config> copies;
  mark at;
};

// What `weir engine` is besides a gateway of one engine. No key of a file says it.
struct replica_config {
  bool on = false;     // the callers are gateways: their cache_salt keeps prompts apart, as at vLLM
  std::string events;  // where KV events are published, tcp://HOST:PORT; empty: nowhere
  std::string replay;  // where past ones are answered for; empty: nowhere
};

struct log_config {
  std::string level = "info";  // debug | info | warn | error
  bool access = true;          // one JSON line per request on standard error
};

struct gateway_config {
  listen_config listen{.port = 8080};
  listen_config admin{.port = 9090};  // metrics; loopback only
  admin_config admin_access;
  std::int64_t io_threads = 0;  // 0 = cores
  limits_config limits;
  auth_config auth;
  redis_config redis;
  log_config log;
  tracing_config tracing;
  failover_config failover;
  overload_config overload;
  shadow_config shadow;
  routing_config routing;
  std::vector<policy::rule> rules;
  std::vector<mark> rule_marks;  // one per rule
  std::vector<target_config> targets;
  std::vector<model_config> models;
  replica_config replica;
};

struct fault {
  std::string file;
  mark at;
  std::string key;  // dotted path: models[0].targets
  std::string message;
};

}  // namespace weir::gateway::config
