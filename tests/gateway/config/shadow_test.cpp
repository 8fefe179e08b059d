#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "gateway/config/load.hpp"

namespace weir::gateway::config {

namespace {

// `copies`: entries of shadow.copies. Target own answers, hosted answers too, aside answers nobody.
std::string with_copies(const std::string& copies,
                        const std::string& ledger = "  ledger_dir: /var/ledger\n") {
  return "auth:\n  loopback_open: true\n  secret_file: secret\n" + ledger +
         "targets:\n"
         "  - {name: own, http: {base_url: 'http://own'}}\n"
         "  - {name: hosted, hosted: true, http: {base_url: 'https://hosted'}}\n"
         "  - {name: aside, http: {base_url: 'http://aside'}}\n"
         "  - {name: embedded, engine: {model_dir: m}}\n"
         "models:\n"
         "  - {name: kimi, aliases: [k], targets: [own, hosted, embedded]}\n"
         "shadow:\n  copies:\n" +
         copies;
}

std::vector<fault> faults_of(const std::string& yaml) {
  const auto parsed = parse(yaml, "/etc/weir/weir.yaml");
  return parsed ? validate(*parsed, "/etc/weir/weir.yaml", false) : parsed.error();
}

std::string copy(const std::string& fields) {
  return "    - {model: kimi, target: aside" + fields + "}\n";
}

}  // namespace

TEST_CASE("copies as they are configured, and what holds otherwise") {
  const auto config =
      parse(with_copies(copy(", share: 0.2, memory_bytes: 8MiB, redact: [user, 'messages[].name'], "
                             "keep_text: true")) +
                "  keep_pairs: 10\n  keep_days: 3\n  seed: 7\n",
            "/etc/weir/weir.yaml");
  REQUIRE(config);
  CHECK(validate(*config, "/etc/weir/weir.yaml", false).empty());
  CHECK(config->shadow.keep_pairs == 10);
  CHECK(config->shadow.keep_days == 3);
  CHECK(config->shadow.seed == 7);
  const auto& one = config->shadow.copies.at(0);
  CHECK(one.share == 0.2);
  CHECK(one.memory_bytes == 8 << 20);
  CHECK(one.keep_text);
  CHECK(one.redact == std::vector<std::string>{"user", "messages[].name"});
  const auto plain = parse(with_copies(copy("")), "/etc/weir/weir.yaml");
  CHECK_FALSE(plain->shadow.copies.at(0).keep_text);
  CHECK(plain->shadow.copies.at(0).redact.size() == 4);
  const auto bare = parse(with_copies(copy(", redact: []")), "/etc/weir/weir.yaml");
  CHECK(bare->shadow.copies.at(0).redact.empty());
}

TEST_CASE("a hosted target may get copies beside requests, a replica may not") {
  CHECK(faults_of(with_copies("    - {model: kimi, target: hosted}\n")).empty());
  CHECK(faults_of(with_copies(copy(""))).empty());
}

TEST_CASE("what is wrong with copies is said where it stands") {
  struct row {
    const char* name;
    std::string yaml;
    const char* key;
    const char* message;
  };
  const row rows[] = {
      {"no ledger", with_copies(copy(""), ""), "shadow", "needs auth.ledger_dir"},
      {"no such model", with_copies("    - {model: k3, target: aside}\n"), "shadow.copies[0].model",
       "no model named"},
      {"an alias", with_copies("    - {model: k, target: aside}\n"), "shadow.copies[0].model",
       "no model named"},
      {"twice", with_copies(copy("") + copy("")), "shadow.copies[1].model", "has copies already"},
      {"no such target", with_copies("    - {model: kimi, target: b}\n"), "shadow.copies[0].target",
       "no target named"},
      {"an engine", with_copies("    - {model: kimi, target: embedded}\n"), "shadow.copies[0].target",
       "copies go to http targets"},
      {"a replica at work", with_copies("    - {model: kimi, target: own}\n"), "shadow.copies[0].target",
       "answers requests of its own"},
      {"share beyond 1", with_copies(copy(", share: 1.5")), "shadow.copies[0].share", "from 0 to 1"},
      {"no rate", with_copies(copy(", requests_per_s: 0")), "shadow.copies[0].requests_per_s",
       "not a whole number"},
      {"no field's path", with_copies(copy(", redact: ['a[0]']")), "shadow.copies[0].redact",
       "'a[0]' is not a field's path"},
      {"what is needed", with_copies(copy(", redact: [messages]")), "shadow.copies[0].redact",
       "cannot do without"},
      {"unknown field", with_copies(copy(", rate: 3")), "shadow.copies[0].rate", "known here"},
      {"too many kept", with_copies(copy("")) + "  keep_pairs: 100001\n", "shadow.keep_pairs",
       "not a whole number"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto found = faults_of(r.yaml);
    INFO(to_text(found));
    const bool named = std::any_of(found.begin(), found.end(), [&](const fault& f) {
      return f.key == r.key && f.message.find(r.message) != std::string::npos;
    });
    CHECK(named);
  }
}

}  // namespace weir::gateway::config
