#include <cstdio>

#include "engine/text/quote.hpp"
#include "gateway/auth/key_store.hpp"
#include "gateway/cli/commands.hpp"

namespace weir::gateway::cli {

namespace {

struct key_options {
  std::filesystem::path secret_file;
  std::string name;
  std::string tenant = "default";
};

int fail(const std::string& message) {
  std::fprintf(stderr, "weir keys: %s\n", message.c_str());
  return k_failed;
}

int make_key(const key_options& options) {
  if (!std::filesystem::exists(options.secret_file)) {
    if (const auto made = auth::create_secret(options.secret_file); !made) return fail(made.error());
    std::fprintf(stderr, "created the server secret %s\n", options.secret_file.c_str());
  }
  const auto secret = auth::read_secret(options.secret_file);
  if (!secret) return fail(secret.error());
  const std::string key = auth::generate_key();
  std::fprintf(stderr, "the key, shown this once:\n");
  std::printf("%s\n", key.c_str());
  std::fprintf(stderr, "\nadd to the configuration under auth.keys:\n");
  std::printf("    - name: %s\n      tenant: %s\n      digest: %s\n", options.name.c_str(),
              options.tenant.c_str(), auth::to_hex(auth::key_digest(*secret, key)).c_str());
  return k_ok;
}

}  // namespace

void add_keys(CLI::App& app, command& chosen) {
  auto options = std::make_shared<key_options>();
  auto* keys = app.add_subcommand("keys", "API keys of the configuration file");
  keys->require_subcommand(1);
  auto* make =
      keys->add_subcommand("new", "Make a key: prints it once, and the lines for the configuration file");
  make->add_option("--secret-file", options->secret_file,
                   "The server secret (auth.secret_file); created when missing")
      ->required();
  make->add_option("--name", options->name, "How logs and metrics call the key")->required();
  make->add_option("--tenant", options->tenant, "Whose key it is")->capture_default_str();
  make->callback([options, &chosen] { chosen = [options] { return make_key(*options); }; });
}

}  // namespace weir::gateway::cli
