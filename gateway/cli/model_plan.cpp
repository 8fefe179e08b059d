#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "engine/model/mapped_file.hpp"
#include "engine/plan/memory_plan.hpp"
#include "engine/runner/backend.hpp"
#include "gateway/cli/model_commands.hpp"

namespace weir::gateway::cli {

namespace {

namespace plan = engine::plan;

constexpr std::int64_t k_context_unasked = 4'096;
constexpr std::int64_t k_memory_unasked = 80'000'000'000;

// Contexts that the table shows, as far as the model goes, before the model's own.
constexpr std::int64_t k_contexts[] = {4'096, 32'768, 131'072, 1'048'576};

constexpr const char* k_footer =
    R"(Looks at one GPU of a tensor-parallel replica: weights and KDA states are split, MLA latents are on
each. No weight is read. Exit code 1 when what was asked for does not fit.

Examples:
  weir model plan -c configs/models/kimi-k3.json --gpus 8 --memory 288GB --sequences 16 --context 131072
  weir model plan -c configs/models/kimi-linear-48b-a3b.json --memory 141GB --kept 64)";

struct plan_arguments {
  std::filesystem::path config_file;
  plan::plan_request request{.memory_bytes = 0, .runtime_bytes = 4'000'000'000};
  std::string weights = "stored";
  std::string latent = "bf16";
  std::string state = "f32";
  std::int64_t context_tokens = 0;  // 0: k_context_unasked, or the model's where that is less
  bool json = false;
  bool is_assumed = false;  // the memory
};

std::int64_t memory_of_this_machine() {
  const auto* const cuda = engine::runner::cuda_backend();
  if (cuda == nullptr || cuda->count() == 0) return k_memory_unasked;
  const auto facts = cuda->facts(0);
  return facts ? facts->memory_bytes : k_memory_unasked;
}

void print_json(const plan::memory_plan& made) {
  std::string envelopes;
  for (std::size_t i = 0; i < plan::k_envelopes; ++i) {
    envelopes += fmt::format(R"({}"{}":{})", i == 0 ? "" : ",", plan::name_of(static_cast<plan::envelope>(i)),
                             made.bytes[i]);
  }
  fmt::print(R"({{"fits":{},"binding":"{}","bytes":{{{}}},"sum":{},"memory_bytes":{},"sequence_bytes":{},)"
             R"("sequences_max":{},"context_max":{}}})",
             made.fits(), plan::name_of(made.binding), envelopes, made.sum, made.memory_bytes,
             made.sequence_bytes, made.sequences_max, made.context_max);
  fmt::print("\n");
}

void print_text(const engine::model::model_config& config, const plan_arguments& arguments,
                const plan::memory_plan& made) {
  const auto& asked = arguments.request;
  const auto counts = plan::count_weights(config);
  fmt::print("{} parameters, {} of weights\n", amount_text(counts.total()),
             bytes_text(plan::weight_bytes(config, asked.weights)));
  fmt::print("a KDA state or checkpoint takes {} bytes, a token of context {} bytes\n\n",
             plan::state_bytes(config, asked.formats), plan::token_bytes(config, asked.formats));
  fmt::print("one GPU of {}, {} sequences of {} tokens\n", asked.gpus, asked.sequences, asked.context_tokens);
  for (std::size_t i = 0; i < plan::k_envelopes; ++i) {
    fmt::print("  {:<12}{:>14}\n", plan::name_of(static_cast<plan::envelope>(i)), bytes_text(made.bytes[i]));
  }
  fmt::print("  {:<12}{:>14} of {}: {}, {} {}\n\n", "sum", bytes_text(made.sum),
             bytes_text(made.memory_bytes), made.fits() ? "fits" : "DOES NOT FIT",
             plan::name_of(made.binding), made.fits() ? "takes most" : "binds");
  fmt::print("{:>12}{:>12}{:>12}\n", "context", "sequences", "binds");
  plan::plan_request each = asked;
  std::vector<std::int64_t> contexts{config.context_tokens};
  for (const std::int64_t context : k_contexts) {
    if (context < config.context_tokens) contexts.insert(contexts.end() - 1, context);
  }
  for (const std::int64_t context : contexts) {
    each.context_tokens = context;
    each.sequences = 0;
    const auto most = plan::make_plan(config, each);
    if (!most) continue;
    each.sequences = std::min(most->sequences_max + 1, plan::k_sequences_max);  // one too many
    const auto over = plan::make_plan(config, each);
    fmt::print("{:>12}{:>12}{:>12}\n", context, most->sequences_max,
               over ? plan::name_of(over->binding) : "");
  }
}

int make(plan_arguments arguments) {
  const auto text = engine::model::read_file(arguments.config_file, engine::model::k_config_bytes_max);
  if (!text) {
    fmt::print(stderr, "weir model plan: {}\n", text.error().detail);
    return k_failed;
  }
  const auto config = engine::model::parse_model_config(*text);
  if (!config) {
    fmt::print(stderr, "weir model plan: {}\n", config.error().detail);
    return k_failed;
  }
  auto& request = arguments.request;
  if (request.memory_bytes == 0) {
    request.memory_bytes = memory_of_this_machine();
    arguments.is_assumed = request.memory_bytes == k_memory_unasked;
  }
  request.weights = *engine::weight_format_of(arguments.weights);
  request.formats.latent = arguments.latent == "fp8" ? 1 : arguments.latent == "bf16" ? 2 : 4;
  request.formats.state = arguments.state == "bf16" ? 2 : 4;
  request.context_tokens = arguments.context_tokens > 0
                               ? arguments.context_tokens
                               : std::min<std::int64_t>(k_context_unasked, config->context_tokens);
  const auto made = plan::make_plan(*config, request);
  if (!made) {
    fmt::print(stderr, "weir model plan: {}\n", made.error().detail);
    return k_bad_config;
  }
  if (arguments.json) {
    print_json(*made);
  } else {
    if (arguments.is_assumed)
      fmt::print("80 GB a GPU is assumed: no --memory was given, and there is no GPU here\n");
    print_text(*config, arguments, *made);
  }
  return made->fits() ? k_ok : k_failed;
}

}  // namespace

void add_model_plan(CLI::App& model, command& chosen) {
  auto arguments = std::make_shared<plan_arguments>();
  auto& request = arguments->request;
  auto* app = model.add_subcommand("plan", "What of a model fits a replica's memory, before loading it");
  app->add_option("-c,--config", arguments->config_file, "The model's config.json")->required();
  app->add_option("--gpus", request.gpus, "GPUs of the replica")->capture_default_str();
  app->add_option("--memory", request.memory_bytes,
                  "Memory of one GPU, as 80GB or 80GiB; default: that of this machine's, or 80GB without one")
      ->transform(byte_size(1, plan::k_memory_bytes_max));
  app->add_option("--runtime", request.runtime_bytes,
                  "Of that for driver, kernels, activations and communication")
      ->transform(byte_size(0, plan::k_memory_bytes_max))
      ->capture_default_str();
  app->add_option("--sequences", request.sequences, "Sequences running at once")->capture_default_str();
  app->add_option("--context", arguments->context_tokens,
                  "Tokens of each, at most the model's; default: 4096, or the model's where that is less")
      ->check(CLI::PositiveNumber);
  app->add_option("--kept", request.kept, "Prefixes of that length kept with their checkpoint")
      ->capture_default_str();
  app->add_option("--moving", request.moving, "Requests on their way to or from another replica")
      ->capture_default_str();
  add_weights_option(*app, arguments->weights);
  app->add_option("--latent", arguments->latent, "Numbers of the context pages")
      ->check(CLI::IsMember({"bf16", "fp8", "f32"}))
      ->capture_default_str();
  app->add_option("--state", arguments->state, "Numbers of the recurrent state")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app->add_flag("--json", arguments->json, "One JSON object, in bytes of one GPU");
  app->footer(k_footer);
  app->callback([arguments, &chosen] { chosen = [arguments] { return make(*arguments); }; });
}

}  // namespace weir::gateway::cli
