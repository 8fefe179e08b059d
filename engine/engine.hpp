// The embedded engine's public boundary: load a checkpoint, take token-id requests, deliver token events.
// Text never crosses it: rendering, tokenizing, detokenizing and stop strings belong to engine/text on the
// caller's side.
//
// Invariants: every accepted request ends in exactly one on_finished(), also after cancel() and stop();
// tokens come in order before it; the reference backend's output does not depend on what else runs in the
// batch. Threads: submit, cancel and stats from any thread; sinks are called on the engine's worker thread
// and must not block.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend_kind.hpp"
#include "engine/cache/cache_event.hpp"
#include "engine/constraint.hpp"
#include "engine/model/weight_format.hpp"
#include "engine/monitor/activity.hpp"
#include "engine/parallel/split.hpp"
#include "engine/result.hpp"
#include "engine/sampling_params.hpp"

namespace weir::engine {

// Three grains that need not agree: prompts are compared in hash units, at whose ends alone a prefix can be
// reused; states are kept at prompt ends, junctions, hints and every `spacing_tokens`; the scheduler ends the
// chunks of a prompt at multiples of `chunk_align_tokens` where it may choose.
struct prefix_cache_config {
  bool enabled = true;
  std::int32_t unit_tokens = 64;
  std::int32_t spacing_tokens = 0;  // 0: none; else a multiple of unit_tokens, and unit_tokens is dense
  std::int32_t chunk_align_tokens = 1;
};

struct engine_config {
  std::filesystem::path model_dir;
  backend_kind backend = backend_kind::automatic;
  weight_format weights = weight_format::stored;
  std::optional<activation_format> activations;  // nothing: narrow on cuda, else float32
  std::int32_t compute_threads = 0;              // 0 = cores - 1, at least 1
  std::int32_t device = 0;                       // of the cuda backend
  std::int32_t sequences_max = 64;               // running at once, as far as kv_bytes allows
  std::int32_t queue_max = 1024;                 // waiting beyond that is errc::queue_full
  std::int64_t kv_bytes = 256LL << 20;  // one pool: MLA pages, KDA states, and what the cache keeps of both
  std::int64_t memory_bytes = 0;        // that weights, activations and kv_bytes must fit; 0: not checked
  std::int32_t page_tokens = 64;        // tokens per MLA page
  // Token budget of one step: decode first, then prefill chunks. At least sequences_max.
  std::int32_t step_tokens_max = 512;
  // While sequences decode, prompts get no more of a step than lets it take so many times what it would
  // without: 1 to 100, or 0 for as much as step_tokens_max allows.
  double decode_stretch = 1.5;
  prefix_cache_config prefix_cache;
  ranks_config
      ranks;  // this process's place among those that compute the model; kv_bytes and memory_bytes are each's
  // Told what made sequences end as failed, on the worker thread. May be empty.
  std::function<void(const std::string&)> on_fault;
  // Told what the prefix cache took up and dropped, in order, after the step that did it, on the worker
  // thread. May be empty.
  std::function<void(const std::vector<cache::cache_event>&)> on_cache_events;
};

struct model_info {
  std::string architecture;
  backend_kind backend = backend_kind::cpu;  // that computes
  std::string device;                        // its name; empty: the host
  activation_format activations = activation_format::float32;
  std::int32_t ranks = 1;
  std::int32_t vocab_size = 0;
  std::int32_t context_tokens = 0;  // model_max_length, capped by what kv_bytes can hold
  std::int32_t eos_token = -1;
  std::int64_t parameter_count = 0;
  std::int64_t weight_bytes = 0;  // of this rank
};

struct token_logprob {
  std::int32_t token;
  float logprob;  // natural log, of the model's distribution before temperature and filters
};

struct token_event {
  std::int32_t token;
  float logprob;                   // 0 unless logprobs were asked for
  std::vector<token_logprob> top;  // top_logprobs entries, best first
};

enum class finish_reason {
  stop,       // a stop token, which is not delivered as a token
  length,     // max_new_tokens or the context is used up
  cancelled,  // cancel() or stop()
  failed,     // a fault in the engine; the log says which
};

// One sequence's receiver. Calls come from the worker thread, one at a time.
class event_sink {
 public:
  virtual ~event_sink() = default;
  // Once, before the first token: how many of the prompt's tokens came from the cache. Not called for a
  // sequence that ended before it ran.
  virtual void on_started(std::int32_t cached_tokens) noexcept { static_cast<void>(cached_tokens); }
  virtual void on_token(const token_event& event) noexcept = 0;
  virtual void on_finished(finish_reason reason) noexcept = 0;
};

struct generate_request {
  std::vector<std::int32_t> prompt;  // [P] token ids, 1 <= P < context_tokens
  std::int32_t max_new_tokens = 16;  // >= 1
  sampling_params sampling;
  std::vector<std::int32_t> stop_tokens;  // besides the model's eos_token
  // Whose prefixes it may reuse and be reused by, and who shares its turn: a tenant. At most
  // k_scope_bytes_max bytes.
  std::string scope;
  // Where other prompts are expected to part from this one: token counts worth a checkpoint, in any order;
  // those outside the prompt are ignored. At most k_checkpoint_hints_max.
  std::vector<std::int32_t> checkpoint_at;
  // What may be generated: then a sequence ends as `stop` only where the constraint allows it, by a stop
  // token or because nothing may follow. Null: anything.
  std::shared_ptr<const token_constraint> constraint;
};

inline constexpr std::size_t k_scope_bytes_max = 256;
inline constexpr std::size_t k_checkpoint_hints_max = 64;

using sequence_id = std::uint64_t;

struct engine_stats {
  std::int32_t running = 0;
  std::int32_t waiting = 0;
  // The pool in pages, of which a state takes state_pages. total = used + cached + free + state_pages *
  // (state_slots_used + checkpoints).
  std::int64_t kv_pages_used = 0;    // by sequences, shared ones once
  std::int64_t kv_pages_cached = 0;  // by the cache alone
  std::int64_t kv_pages_free = 0;
  std::int64_t kv_pages_total = 0;
  std::int64_t kv_bytes = 0;  // as configured: kv_pages_total * page_bytes, and what is less than a slab
  std::int64_t page_bytes = 0;
  std::int32_t state_pages = 0;
  std::int32_t state_slots_used = 0;    // by sequences
  std::int32_t state_slots_total = 0;   // sequences_max
  std::int32_t checkpoints = 0;         // states in the cache
  std::uint64_t prompt_tokens = 0;      // computed since start
  std::uint64_t recomputed_tokens = 0;  // again, after a preemption
  // Prompt tokens not computed, by why their checkpoint was kept.
  std::uint64_t cached_prompt_end = 0;
  std::uint64_t cached_junction = 0;
  std::uint64_t cached_hint = 0;
  std::uint64_t cached_interval = 0;
  std::uint64_t checkpoints_stored = 0;
  std::uint64_t evictions = 0;         // of checkpoints
  std::uint64_t preemptions = 0;       // of running sequences, which are computed again later
  std::uint64_t generated_tokens = 0;  // since start
  std::uint64_t steps = 0;
};

class engine {
 public:
  virtual ~engine() = default;  // stops first

  // Reads and maps the checkpoint, checks every tensor's shape, starts the worker. Blocks for the load, and
  // until all ranks have loaded. REQUIRES: ranks.rank == 0.
  static result<std::unique_ptr<engine>> open(const engine_config& config);

  // Computes another rank's part until rank 0 stops. errc::lost where that, or another, ended without.
  static result<void> follow(const engine_config& config);

  // What both would refuse before they read a weight.
  static result<void> check_before_load(const engine_config& config);

  virtual const model_info& info() const noexcept = 0;

  // Checks the request against model and limits, then queues it. The sink lives until its on_finished()
  // returned.
  virtual result<sequence_id> submit(generate_request request, std::shared_ptr<event_sink> sink) = 0;

  // Ends a sequence at the next step boundary; unknown or finished ids are ignored.
  virtual void cancel(sequence_id id) noexcept = 0;

  virtual engine_stats stats() const noexcept = 0;

  // Costs a copy of some kilobytes, and of eight bytes for each expert of each layer.
  virtual monitor::engine_activity activity() const = 0;

  // False once it serves nothing any more, because a rank was lost; fault() says why.
  virtual bool serves() const noexcept { return true; }
  virtual std::string fault() const { return {}; }

  // Cancels everything, waits for the worker. Idempotent.
  virtual void stop() noexcept = 0;
};

}  // namespace weir::engine
