#include "gateway/config/load.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

namespace weir::gateway::config {

namespace {

const std::filesystem::path k_file = "/etc/weir/weir.yaml";

// A configuration without faults; the tables below replace one line of it.
const std::string k_good = R"(listen: 127.0.0.1:8080
admin:
  listen: 127.0.0.1:9090
auth:
  loopback_open: true
targets:
  - name: embedded
    engine:
      model_dir: models/tiny
models:
  - name: tiny
    aliases: [small]
    targets: [embedded]
)";

std::string with(const std::string& line, const std::string& replacement) {
  std::string text = k_good;
  const auto at = text.find(line);
  REQUIRE(at != std::string::npos);
  return text.replace(at, line.size(), replacement);
}

// Faults of both stages, as load() reports them.
std::vector<fault> faults_of(const std::string& yaml) {
  const auto parsed = parse(yaml, k_file);
  return parsed ? validate(*parsed, k_file, false) : parsed.error();
}

struct fault_case {
  const char* name;
  std::string yaml;
  int line;  // 0: none can be named
  const char* key;
  const char* message;  // a part of it
};

const std::string k_digest(64, 'a');

std::string with_keys(const std::string& keys) {
  return with("  loopback_open: true\n", "  secret_file: secret\n  keys:\n" + keys);
}

std::vector<fault_case> parse_cases() {
  return {
      {"top level is a list", "[1, 2]\n", 1, "", "expected a mapping"},
      {"not YAML", "listen: [1\nadmin: }\n", 2, "", "not valid YAML"},
      {"unknown key, near", with("admin:", "admn:"), 2, "admn", "did you mean 'admin'?"},
      {"unknown key, far", with("admin:", "zebra:"), 2, "zebra", "known here: "},
      {"key twice", with("auth:", "listen: 127.0.0.1:1\nauth:"), 4, "listen", "stands here twice"},
      {"listen without a port", with("127.0.0.1:8080", "127.0.0.1"), 1, "listen", "is not ADDRESS:PORT"},
      {"listen port too large", with("127.0.0.1:8080", "127.0.0.1:65536"), 1, "listen",
       "is not ADDRESS:PORT"},
      {"listen port negative", with("127.0.0.1:8080", "127.0.0.1:-1"), 1, "listen", "is not ADDRESS:PORT"},
      {"listen is a list", with("127.0.0.1:8080", "[127.0.0.1]"), 1, "listen", "expected a single value"},
      {"section is a word", with("auth:\n  loopback_open: true", "auth: open"), 4, "auth",
       "expected a mapping"},
      {"flag is a number", with("true", "1"), 5, "auth.loopback_open", "neither true nor false"},
      {"integer is a word", k_good + "io_threads: many\n", 14, "io_threads",
       "not a whole number from 0 to 1024"},
      {"integer over its range", k_good + "io_threads: 1025\n", 14, "io_threads", "not a whole number"},
      {"integer with a fraction", k_good + "io_threads: 1.5\n", 14, "io_threads", "not a whole number"},
      {"integer beyond 64 bits", k_good + "io_threads: 99999999999999999999\n", 14, "io_threads",
       "not a whole number"},
      {"size with an unknown unit", k_good + "limits:\n  body_bytes: 4MB\n", 15, "limits.body_bytes",
       "is not a size"},
      {"size that overflows", k_good + "limits:\n  body_bytes: 9223372036854775807GiB\n", 15,
       "limits.body_bytes", "is not a size"},
      {"size below its range", k_good + "limits:\n  body_bytes: 1023\n", 15, "limits.body_bytes",
       "from 1024 to"},
      {"level outside the choice", k_good + "log:\n  level: loud\n", 15, "log.level",
       "is not one of debug, info"},
      {"certificate without its key", k_good + "tls:\n  cert_file: a.pem\n", 15, "tls", "go together"},
      {"target of no kind", with("    engine:\n      model_dir: models/tiny\n", ""), 7, "targets[0]",
       "needs one kind"},
      {"target of two kinds", with("    engine:\n", "    http: {base_url: http://h}\n    engine:\n"), 7,
       "targets[0]", "needs one kind"},
      {"http target with a timeout of none",
       with("targets:\n", "targets:\n  - {name: r, http: {base_url: http://h, connect_timeout_ms: 0}}\n"), 7,
       "targets[0].http.connect_timeout_ms", "from 1"},
      {"metrics at no path", with("    engine:\n", "    metrics: {path: /a b}\n    engine:\n"), 8,
       "targets[0].metrics.path", "begins with /"},
      {"list that is a word", with("[embedded]", "embedded"), 13, "models[0].targets", "expected a list"},
      {"list entry that is a list", with("[embedded]", "[[x]]"), 13, "models[0].targets",
       "each entry is a text"},
      {"text over 4096 bytes", with("models/tiny", std::string(4097, 'x')), 9, "targets[0].engine.model_dir",
       "longer than 4096 bytes"},
      {"empty path", with("models/tiny", "''"), 9, "targets[0].engine.model_dir", "expected a path"},
  };
}

std::vector<fault_case> rule_cases() {
  return {
      {"listen is a host name", with("127.0.0.1:8080", "localhost:8080"), 1, "listen",
       "not a numeric address"},
      {"open to others without keys", with("127.0.0.1:8080", "0.0.0.0:8080"), 1, "listen", "needs auth.keys"},
      {"admin open to others", with("127.0.0.1:9090", "0.0.0.0:9090"), 3, "admin.listen",
       "stays on loopback"},
      {"admin on the API's address", with("127.0.0.1:9090", "127.0.0.1:8080"), 3, "admin.listen",
       "same as listen"},
      {"nobody may call", with("true", "false"), 5, "auth", "nobody may call"},
      {"target name with a space",
       with("targets:\n", "targets:\n  - {name: em bedded, engine: {model_dir: m}}\n"), 7, "targets[0].name",
       "printable ASCII"},
      {"target name over 256 bytes",
       with("targets:\n", "targets:\n  - {name: " + std::string(257, 'e') + ", engine: {model_dir: m}}\n"), 7,
       "targets[0].name", "longer than 256"},
      {"steps below sequences",
       with("models/tiny\n", "models/tiny\n      sequences: 64\n      step_tokens: 63\n"), 7,
       "targets[0].engine.step_tokens", "63 is below sequences (64)"},
      {"checkpoints between units",
       with("models/tiny\n", "models/tiny\n      unit_tokens: 16\n      spacing_tokens: 40\n"), 7,
       "targets[0].engine.spacing_tokens", "40 is no multiple of unit_tokens (16)"},
      {"model without a name", with("name: tiny", "name: ''"), 11, "models[0].name", "needs a value"},
      {"alias that is the name", with("[small]", "[tiny]"), 11, "models[0].aliases", "names two models"},
      {"http target without an address", with("targets:\n", "targets:\n  - {name: r, http: {model: m}}\n"), 7,
       "targets[0].http.base_url", "needs the address"},
      {"http target at no address", with("targets:\n", "targets:\n  - {name: r, http: {base_url: h/v1}}\n"),
       7, "targets[0].http.base_url", "does not start with http"},
      {"model without targets", with("    targets: [embedded]\n", ""), 11, "models[0].targets",
       "at least one target"},
      {"model on an unknown target", with("[embedded]", "[other]"), 11, "models[0].targets",
       "no target named 'other'"},
      {"keys without the secret",
       with("  loopback_open: true\n", "  keys:\n    - {name: a, tenant: t, digest: " + k_digest + "}\n"), 5,
       "auth.secret_file", "need the server secret"},
      {"digest of 63 digits", with_keys("    - {name: a, tenant: t, digest: " + k_digest.substr(1) + "}\n"),
       7, "auth.keys[0].digest", "64 lower-case hex digits"},
      {"digest in upper case",
       with_keys("    - {name: a, tenant: t, digest: " + std::string(64, 'A') + "}\n"), 7,
       "auth.keys[0].digest", "64 lower-case hex digits"},
      {"key without a tenant", with_keys("    - {name: a, digest: " + k_digest + "}\n"), 7,
       "auth.keys[0].tenant", "needs a value"},
      {"key of an unknown model",
       with_keys("    - {name: a, tenant: t, models: [no], digest: " + k_digest + "}\n"), 7,
       "auth.keys[0].models", "no model named 'no'"},
      {"key of an alias",
       with_keys("    - {name: a, tenant: t, models: [small], digest: " + k_digest + "}\n"), 7,
       "auth.keys[0].models", "'small' is an alias"},
      {"one key twice",
       with_keys("    - {name: a, tenant: t, digest: " + k_digest +
                 "}\n    - {name: b, tenant: t, digest: " + k_digest + "}\n"),
       8, "auth.keys[1].digest", "is the same key as 'a'"},
  };
}

void check_single_faults(const std::vector<fault_case>& cases) {
  for (const auto& c : cases) {
    INFO(c.name);
    const auto faults = faults_of(c.yaml);
    INFO(to_text(faults));
    CHECK(faults.size() == 1);
    if (faults.size() != 1) continue;
    CHECK(faults[0].file == k_file.string());
    CHECK(faults[0].at.line == c.line);
    CHECK(faults[0].key == c.key);
    CHECK(faults[0].message.find(c.message) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a good configuration has no faults") {
  CHECK(to_text(faults_of(k_good)).empty());
}

TEST_CASE("each fault of one field names file, line and key") {
  check_single_faults(parse_cases());
}

TEST_CASE("each fault between fields names file, line and key") {
  check_single_faults(rule_cases());
}

TEST_CASE("all faults of a stage are reported at once") {
  const auto parsing = faults_of(
      "listen: nowhere\nadmn: {}\nio_threads: -1\nlimits:\n  body_bytes: 1\n  connections: 0\nlog: {level: "
      "x, access: y}\n");
  CHECK(parsing.size() == 7);
  const auto rules = faults_of("listen: 0.0.0.0:1\nadmin:\n  listen: 0.0.0.0:2\n");
  INFO(to_text(rules));
  CHECK(rules.size() == 4);  // open without keys, admin open, no targets, no models
}

TEST_CASE(
    "a budget on a model of which no target has a price is a fault of a key of the file, a warning for "
    "others") {
  const auto config = [](const std::string& price, const std::string& more_of_key, const char* model) {
    return "auth:\n  secret_file: secret\n  ledger_dir: ledger\n  keys:\n    - {name: a, tenant: t, "
           "digest: " +
           k_digest + more_of_key +
           "}\ntargets:\n  - {name: bare, engine: {model_dir: m}}\n"
           "  - {name: priced, engine: {model_dir: m}, price: " +
           price +
           "}\n"
           "models:\n  - {name: free, targets: [bare]}\n  - {name: mixed, targets: [bare, " +
           model + "]}\n";
  };
  struct row {
    const char* name;
    std::string yaml;
    std::vector<std::string> named;
    const char* warned;
  };
  const std::string budget = ", limits: {usd_per_month: 1}";
  const std::string price = "{output_usd_per_mtok: 0}";
  const row rows[] = {
      {"no budget", config(price, ", limits: {concurrent: 1}", "priced"), {}, "'free'"},
      {"every model", config(price, budget, "priced"), {"'free'"}, "'free'"},
      {"models with a price", config(price, budget + ", models: [mixed]", "priced"), {}, "'free'"},
      {"an hour's price alone",
       config("{usd_per_hour: 1}", budget, "priced"),
       {"'free'", "'mixed'"},
       "'free', 'mixed'"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto found = faults_of(r.yaml);
    REQUIRE(found.size() == r.named.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].key == "auth.keys[0].limits");
      CHECK(found[i].message.find("model " + r.named[i]) != std::string::npos);
    }
    CHECK(warning_of(*parse(r.yaml, k_file)).find("no target of model " + std::string(r.warned)) == 0);
  }
  CHECK(warning_of(*parse(k_good, k_file)).empty());
}

TEST_CASE("the text of a fault is file:line:column: key: message") {
  CHECK(to_text(
            {{"a.yaml", {3, 7}, "models[0].name", "needs a value"}, {"a.yaml", {}, "", "cannot be read"}}) ==
        "a.yaml:3:7: models[0].name: needs a value\na.yaml: cannot be read\n");
}

TEST_CASE("values, sizes and paths arrive as written") {
  const std::string yaml = with("models/tiny", "../models/./tiny") + R"(limits:
  body_bytes: 64KiB
  body_budget_bytes: 3GiB
  connections: 7
  drain_grace_ms: 0
log:
  level: warn
  access: false
)";
  const auto config = parse(yaml, k_file);
  REQUIRE(config);
  CHECK(config->targets.at(0).engine.model_dir == "/etc/models/tiny");
  CHECK(config->limits.body_bytes == 64 << 10);
  CHECK(config->limits.body_budget_bytes == 3LL << 30);
  CHECK(config->limits.connections == 7);
  CHECK(config->limits.drain_grace_ms == 0);
  CHECK(config->limits.head_timeout_ms == limits_config{}.head_timeout_ms);
  CHECK(config->log.level == "warn");
  CHECK_FALSE(config->log.access);
  CHECK(config->models.at(0).aliases == std::vector<std::string>{"small"});
}

TEST_CASE("an absolute path stays, an IPv6 address loses its brackets") {
  auto config = parse(with("models/tiny", "/srv/tiny"), k_file);
  REQUIRE(config);
  CHECK(config->targets.at(0).engine.model_dir == "/srv/tiny");
  config = parse(with("127.0.0.1:8080", "'[::1]:8080'"), k_file);
  REQUIRE(config);
  CHECK(config->listen.address == "::1");
  CHECK(config->listen.port == 8080);
  CHECK(validate(*config, k_file, false).empty());
}

TEST_CASE("files that do not exist are faults") {
  const auto config = parse(k_good, "/nonexistent/weir.yaml");
  REQUIRE(config);
  const auto faults = validate(*config, "/nonexistent/weir.yaml", true);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].key == "targets[0].engine.model_dir");
  CHECK(faults[0].message == "/nonexistent/models/tiny does not exist");
  const auto absent = load("/nonexistent/weir.yaml");
  REQUIRE_FALSE(absent);
  CHECK(absent.error().at(0).message.find("cannot be opened") != std::string::npos);
}

TEST_CASE("a file over 1 MiB is refused before parsing") {
  const auto huge = parse(std::string(k_file_bytes_max + 1, '#'), k_file);
  REQUIRE_FALSE(huge);
  CHECK(huge.error().at(0).message.find("larger than") != std::string::npos);
}

TEST_CASE("every configuration that ships is valid") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(WEIR_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    const auto config = load(entry.path());
    INFO(entry.path() << "\n" << (config ? std::string() : to_text(config.error())));
    CHECK(config.has_value());
  }
  CHECK(count > 0);
}

}  // namespace weir::gateway::config
