#include <cstdio>
#include <utility>

#include "engine/text/quote.hpp"
#include "gateway/auth/key_store.hpp"
#include "gateway/auth/key_text.hpp"
#include "gateway/auth/private_file.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/cli/keys_remote.hpp"

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

// As YAML: a name may look like a number, a mapping or nothing at all.
std::string in_quotes(const std::string& name) {
  std::string out;
  engine::text::append_quoted(out, name);
  return out;
}

int make_key(const key_options& options) {
  for (const auto& [option, name] :
       {std::pair("--name", &options.name), std::pair("--tenant", &options.tenant)}) {
    if (const auto wrong = auth::fault_of_name(*name); !wrong.empty()) {
      return fail(std::string(option) + ": " + std::string(wrong));
    }
  }
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
  std::printf("    - name: %s\n      tenant: %s\n      digest: %s\n", in_quotes(options.name).c_str(),
              in_quotes(options.tenant).c_str(), auth::to_hex(auth::key_digest(*secret, key)).c_str());
  std::fprintf(stderr,
               "\nlimits go beside them, as in\n      limits: {requests_per_min: 60, tokens_per_min: 100000, "
               "concurrent: 8, usd_per_day: 5}\n");
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return fail("standard output takes nothing: make another");
  return k_ok;
}

int make_admin_key(const std::filesystem::path& file) {
  if (const auto made = auth::create_private_file(file, auth::generate_key("weir-admin-")); !made) {
    return fail(made.error());
  }
  std::printf("%s holds an admin key now. Put it into the configuration and restart or reload:\n",
              file.c_str());
  std::printf("  admin:\n    key_file: %s\n", std::filesystem::absolute(file).c_str());
  return k_ok;
}

}  // namespace

void add_keys(CLI::App& app, command& chosen) {
  auto options = std::make_shared<key_options>();
  auto* keys = app.add_subcommand("keys", "API keys: in the configuration file, or in a running weir");
  keys->require_subcommand(1);
  keys->footer(
      "Two kinds: 'new' prints lines for the configuration file; all others but 'admin-key' change a running "
      "weir,\n"
      "which needs auth.ledger_dir and admin.key_file in its configuration.\n\n"
      "Examples:\n"
      "  weir keys admin-key --file /etc/weir/admin.key            once; then admin.key_file names it\n"
      "  weir keys create --admin-key-file /etc/weir/admin.key --name ci --tenant build \\\n"
      "      --requests-per-min 60 --usd-per-month 20\n"
      "  weir keys list --admin-key-file /etc/weir/admin.key\n"
      "  weir keys set KEY_ID --admin-key-file F --usd-per-month 50 --requests-per-min none\n"
      "  weir keys rotate KEY_ID --admin-key-file F --grace-s 3600 the old key opens for another hour\n"
      "  weir keys revoke KEY_ID --admin-key-file F");
  auto* make =
      keys->add_subcommand("new", "Make a key: prints it once, and the lines for the configuration file");
  make->add_option("--secret-file", options->secret_file,
                   "The server secret (auth.secret_file); created when missing")
      ->required();
  make->add_option("--name", options->name, "How logs and metrics call the key")->required();
  make->add_option("--tenant", options->tenant, "Whose key it is")->capture_default_str();
  make->callback([options, &chosen] { chosen = [options] { return make_key(*options); }; });
  auto file = std::make_shared<std::filesystem::path>();
  auto* admin = keys->add_subcommand("admin-key", "Make an admin key: a file for admin.key_file");
  admin->add_option("--file", *file, "Where to; must not exist")->required();
  admin->callback([file, &chosen] { chosen = [file] { return make_admin_key(*file); }; });
  add_remote_keys(*keys, chosen);
}

}  // namespace weir::gateway::cli
