#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include "engine/synth/write_checkpoint.hpp"
#include "gateway/cli/model_commands.hpp"

namespace weir::gateway::cli {

namespace {

constexpr double k_gib = 1024.0 * 1024 * 1024;
constexpr std::int64_t k_shard_mib_max = 1 << 20;

struct synth_arguments {
  engine::synth::write_options options;
  std::int64_t shard_mib = 4096;
};

volatile std::sig_atomic_t g_stopped = 0;

int synthesise(synth_arguments arguments) {
  auto& options = arguments.options;
  options.shard_bytes = arguments.shard_mib << 20;
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::optional<byte_progress> progress(std::in_place, "writing");
  options.told = [&progress](std::int64_t done, std::int64_t all) { (*progress)(done, all); };
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { g_stopped = 1; });
  options.stopped = [] { return g_stopped != 0; };
  const auto made = engine::synth::write_checkpoint(options);
  progress.reset();
  if (!made) {
    fmt::print(stderr, "weir model synth: {}\n", made.error().detail);
    return k_failed;
  }
  fmt::print(
      "{}: {} tensors, {} in {} shards\n"
      "It has no tokenizer: it can be benched and evaluated, and not served.\n",
      options.out_dir.string(), made->tensors, bytes_text(made->bytes), made->shards);
  return k_ok;
}

}  // namespace

byte_progress::byte_progress(std::string_view what) : what_(what), shown_(::isatty(STDERR_FILENO) == 1) {}

byte_progress::~byte_progress() {
  if (shown_ && last_percent_ >= 0) fmt::print(stderr, "\r\x1b[K");
}

void byte_progress::operator()(std::int64_t done, std::int64_t all) {
  const std::int64_t percent = all > 0 ? done / ((all + 99) / 100) : 100;
  if (!shown_ || percent == last_percent_) return;
  last_percent_ = percent;
  fmt::print(stderr, "\r{} {:.2f} of {:.2f} GiB", what_, static_cast<double>(done) / k_gib,
             static_cast<double>(all) / k_gib);
  std::fflush(stderr);
}

void add_model_synth(CLI::App& model, command& chosen) {
  auto arguments = std::make_shared<synth_arguments>();
  auto& options = arguments->options;
  auto* sub = model.add_subcommand("synth", "Write a checkpoint of random weights, of any configuration");
  sub->add_option("-c,--config", options.config_file, "config.json of a published layout")->required();
  sub->add_option("-o,--out", options.out_dir, "Folder to make")->required();
  sub->add_option("--seed", options.seed, "The same seed gives the same weights")
      ->check([](const std::string& text) {
        return text.starts_with('-') ? "'" + text + "' is not a number from 0 up" : std::string();
      })
      ->capture_default_str();
  sub->add_option("--shard-mib", arguments->shard_mib, "Size at which a new shard begins")
      ->check(CLI::Range(std::int64_t{1}, k_shard_mib_max))
      ->capture_default_str();
  sub->footer(
      "The checkpoint has the layout, the tensor names and the spread of a trained one, and says nothing "
      "sensible:\n"
      "it is for loading, memory and speed. It has no tokenizer, so it cannot be served. configs/models has "
      "the published configurations and some cut "
      "down.\n\n"
      "Example: weir model synth --config configs/models/kimi-linear-8-layers.json --out /tmp/random\n"
      "To measure without a disk: weir model bench --config FILE");
  sub->callback([arguments, &chosen] { chosen = [arguments] { return synthesise(*arguments); }; });
}

}  // namespace weir::gateway::cli
