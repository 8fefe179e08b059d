#include "gateway/cli/keys_remote.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/printable.hpp"
#include "engine/text/quote.hpp"
#include "gateway/cli/admin_client.hpp"
#include "gateway/cli/key_tables.hpp"

namespace weir::gateway::cli {

namespace {

using boost::beast::http::verb;
using engine::text::append_quoted;
using printer = bool (*)(const std::string&);

struct remote_options {
  admin_address at;
  bool json = false;
  std::string id;
  std::string name;
  std::string tenant = "default";
  std::vector<std::string> models;
  bool all_models = false;
  // As typed: a number, or "none".
  std::string requests_per_min, tokens_per_min, concurrent, usd_per_day, usd_per_month;
  std::string residency, priority, sharing, shadow;
  std::int64_t grace_s = 0;
  std::int64_t weight = 0;
};

constexpr const char* k_keys = "/admin/v1/keys";
constexpr const char* k_not_ours = "an answer that is not weir's";
constexpr std::size_t k_pages_max = 100'000;

std::string key_path(const remote_options& options, const char* behind = "") {
  return std::string(k_keys) + "/" + path_segment(options.id) + behind;
}

// Fields of a JSON object, in the order of their adding.
class json_fields {
 public:
  void raw(std::string_view key, std::string_view value) {
    out_ += out_.empty() ? "" : ",";
    append_quoted(out_, key);
    out_ += ':';
    out_ += value;
  }
  void text(std::string_view key, std::string_view value) {
    if (value.empty()) return;
    std::string quoted;
    append_quoted(quoted, value);
    raw(key, quoted);
  }
  // A number as typed, or none.
  void limit(std::string_view key, const std::string& typed) {
    if (typed.empty()) return;
    double value = 0;
    const char* const end = typed.data() + typed.size();
    const auto [stop, ec] = std::from_chars(typed.data(), end, value);
    if (typed == "none") return raw(key, "null");
    // Refused there. A zero in front is octal to some.
    const bool octal = typed.size() > 1 && typed[0] == '0' && typed[1] != '.';
    if (ec != std::errc() || stop != end || !std::isfinite(value) || octal) return text(key, typed);
    raw(key, typed.find_first_not_of("0123456789") == typed.npos ? typed : fmt::format("{}", value));
  }
  bool empty() const { return out_.empty(); }
  std::string object() const { return '{' + out_ + '}'; }

 private:
  std::string out_;
};

void add_terms(const remote_options& options, json_fields& to) {
  if (options.all_models) to.raw("models", "[]");
  if (!options.models.empty()) {
    std::string list;
    for (const auto& model : options.models) {
      list += list.empty() ? "" : ",";
      append_quoted(list, model);
    }
    to.raw("models", '[' + list + ']');
  }
  json_fields limits;
  limits.limit("requests_per_min", options.requests_per_min);
  limits.limit("tokens_per_min", options.tokens_per_min);
  limits.limit("concurrent", options.concurrent);
  limits.limit("usd_per_day", options.usd_per_day);
  limits.limit("usd_per_month", options.usd_per_month);
  if (!limits.empty()) to.raw("limits", limits.object());
  to.text("residency", options.residency);
  to.text("priority", options.priority);
  to.text("sharing", options.sharing);
  if (!options.shadow.empty()) to.raw("shadow", options.shadow == "yes" ? "true" : "false");
}

int fail(const std::string& message, int exit_code = k_failed) {
  std::fprintf(stderr, "weir keys: %s\n", message.c_str());
  return exit_code;
}

// Whether all of it went out.
bool flush_output() {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

int show(const remote_options& options, const std::string& answer, printer print) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(answer).get(root)) return fail(k_not_ours);
  if (options.json) {
    std::printf("%s\n", engine::text::printable(simdjson::minify(root)).c_str());
  } else if (!print(answer)) {
    return fail(k_not_ours);
  }
  return flush_output() ? k_ok : fail("standard output takes nothing");
}

int call(const remote_options& options, verb method, const std::string& target, const std::string& body,
         printer print) {
  const auto answer = call_admin(options.at, method, target, body);
  if (!answer) return fail(answer.error().message, answer.error().exit_code);
  return show(options, *answer, print);
}

// A key that nobody has read is not left open.
int take_back(const remote_options& options, const std::string& answer) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view id;
  if (parser.parse(answer).get(root) || root["id"].get(id)) return k_failed;
  const auto target = fmt::format("{}/{}/revoke", k_keys, path_segment(id));
  const auto revoked = call_admin(options.at, verb::post, target);
  if (revoked)
    return fail(fmt::format("the key could not be shown and was revoked again ({})", path_segment(id)));
  return fail(fmt::format("the key could not be shown: revoke {}, which failed here: {}", path_segment(id),
                          revoked.error().message));
}

int create(const remote_options& options) {
  json_fields body;
  body.text("name", options.name);
  body.text("tenant", options.tenant);
  add_terms(options, body);
  std::signal(SIGPIPE,
              SIG_IGN);  // a reader that has gone is a failed write, after which there is something to do
  const auto answer = call_admin(options.at, verb::post, k_keys, body.object());
  if (!answer) return fail(answer.error().message, answer.error().exit_code);
  const int shown = show(options, *answer, print_new_key);
  return shown == k_ok ? k_ok : take_back(options, *answer);
}

int rotate(const remote_options& options) {
  const auto body = fmt::format(R"({{"grace_s":{}}})", options.grace_s);
  const int shown = call(options, verb::post, key_path(options, "/rotate"), body, print_new_key);
  if (shown == k_failed && !flush_output()) return fail("the new key could not be shown: rotate again");
  return shown;
}

int set(const remote_options& options) {
  json_fields body;
  add_terms(options, body);
  if (body.empty())
    return fail("set: say what to change, as --requests-per-min 60; --help lists all", k_bad_config);
  return call(options, verb::patch, key_path(options), body.object(), print_key);
}

// All pages as one list.
int list(const remote_options& options) {
  std::string data;
  std::string target = k_keys;
  std::set<std::string, std::less<>> seen;
  for (bool more = true; more;) {
    const auto answer = call_admin(options.at, verb::get, target);
    if (!answer) return fail(answer.error().message, answer.error().exit_code);
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    simdjson::dom::array keys;
    if (parser.parse(*answer).get(root) || root["data"].get(keys)) return fail(k_not_ours);
    for (const auto key : keys) data += (data.empty() ? "" : ",") + simdjson::minify(key);
    std::string_view next;
    more = !root["next"].get(next);
    if (more && (seen.size() == k_pages_max || !seen.emplace(next).second)) {
      return fail("the server's pages of keys do not end");
    }
    target = fmt::format("{}?cursor={}", k_keys, path_segment(next));
  }
  return show(options, R"({"data":[)" + data + "]}", print_keys);
}

int tenants(const remote_options& options) {
  const std::string path = "/admin/v1/tenants";
  if (options.name.empty() && options.weight != 0)
    return fail("tenants: --weight needs --name", k_bad_config);
  if (options.name.empty()) return call(options, verb::get, path, {}, print_tenants);
  if (options.weight == 0) return fail("tenants: --name needs --weight", k_bad_config);
  const auto body = fmt::format(R"({{"weight":{}}})", options.weight);
  const auto set = call_admin(options.at, verb::put, path + "/" + path_segment(options.name), body);
  if (!set) return fail(set.error().message, set.error().exit_code);
  return options.json ? show(options, *set, nullptr)
                      : show(options, R"({"data":[)" + *set + "]}", print_tenants);
}

using shared_options = std::shared_ptr<remote_options>;

CLI::App* add(CLI::App& keys, command& chosen, const shared_options& options, const char* name,
              const char* what, int (*run)(const remote_options&)) {
  auto* sub = keys.add_subcommand(name, what);
  add_admin_options(*sub, options->at);
  sub->add_flag("--json", options->json, "Print the answer as it came");
  sub->callback([options, run, &chosen] { chosen = [options, run] { return run(*options); }; });
  return sub;
}

void add_id(CLI::App& sub, remote_options& options) {
  sub.add_option("id", options.id, "The key's id, as 'weir keys list' prints it")->required();
}

void add_terms_options(CLI::App& sub, remote_options& o) {
  sub.add_option("--model", o.models, "A model that the key may use; repeat it; none: all");
  sub.add_option("--requests-per-min", o.requests_per_min, "A number, or none");
  sub.add_option("--tokens-per-min", o.tokens_per_min, "Prompt and answer together; a number, or none");
  sub.add_option("--concurrent", o.concurrent, "Requests running at once; a number, or none");
  sub.add_option("--usd-per-day", o.usd_per_day, "Budget of a UTC day; dollars, or none");
  sub.add_option("--usd-per-month", o.usd_per_month, "Budget of a UTC month; dollars, or none");
  sub.add_option("--residency", o.residency, "local_only: no hosted target ever sees a request; any");
  sub.add_option("--priority", o.priority, "batch, low, normal, high: who waits when there is not enough");
  sub.add_option("--sharing", o.sharing, "Who shares cached prompts: as_configured, tenant, key, site");
  sub.add_option("--shadow", o.shadow, "Whether its requests may be copied to a shadow target")
      ->check(CLI::IsMember({"yes", "no"}));
}

}  // namespace

void add_remote_keys(CLI::App& keys, command& chosen) {
  const auto options = [] { return std::make_shared<remote_options>(); };
  const auto made = options();
  auto* sub = add(keys, chosen, made, "create", "Make a key in a running weir; prints it this once", &create);
  sub->add_option("--name", made->name, "How logs and metrics call the key")->required();
  sub->add_option("--tenant", made->tenant, "Whose key it is")->capture_default_str();
  add_terms_options(*sub, *made);

  add(keys, chosen, options(), "list", "All keys, those of the configuration file too", &list);

  const auto shown = options();
  add_id(*add(keys, chosen, shown, "show", "One key, with what it used and spent",
              [](const remote_options& o) { return call(o, verb::get, key_path(o), {}, print_key); }),
         *shown);

  const auto changed = options();
  sub = add(keys, chosen, changed, "set", "Change limits and terms; in force at once", &set);
  add_id(*sub, *changed);
  add_terms_options(*sub, *changed);
  sub->add_flag("--all-models", changed->all_models, "The key may use every model");

  const auto rotated = options();
  sub =
      add(keys, chosen, rotated, "rotate", "A new key in place of the old one; prints it this once", &rotate);
  add_id(*sub, *rotated);
  sub->add_option("--grace-s", rotated->grace_s, "Seconds for which the old key still opens")
      ->capture_default_str();

  const auto revoked = options();
  add_id(
      *add(
          keys, chosen, revoked, "revoke", "Close a key for good; its running requests end within a second",
          [](const remote_options& o) { return call(o, verb::post, key_path(o, "/revoke"), {}, print_key); }),
      *revoked);

  const auto tenant = options();
  sub = add(keys, chosen, tenant, "tenants", "Tenants and their weights; with --name, set one", &tenants);
  sub->add_option("--name", tenant->name, "The tenant to change");
  sub->add_option("--weight", tenant->weight, "Its share where tenants compete")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
}

}  // namespace weir::gateway::cli
