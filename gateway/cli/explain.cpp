#include <fmt/format.h>

#include <cstdio>
#include <expected>
#include <fstream>
#include <iostream>
#include <iterator>

#include "engine/text/printable.hpp"
#include "gateway/api/json.hpp"
#include "gateway/cli/admin_client.hpp"
#include "gateway/cli/commands.hpp"

namespace weir::gateway::cli {

namespace {

constexpr std::size_t k_request_bytes_max = 64 << 20;

struct explain_options {
  admin_address at;
  std::string file;
  std::string tenant;
  std::string key;
  bool json = false;
};

std::expected<std::string, std::string> read_all(const std::string& file) {
  std::string out;
  if (file == "-") {
    out.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream in(file, std::ios::binary);
    if (!in) return std::unexpected(fmt::format("{}: cannot be opened", file));
    out.assign(std::istreambuf_iterator<char>(in), {});
  }
  if (out.size() > k_request_bytes_max) return std::unexpected(fmt::format("{}: too large", file));
  return out;
}

double number(simdjson::dom::element of, std::string_view key) {
  double out = 0;
  return of[key].get(out) ? 0 : out;
}

std::string text(simdjson::dom::element of, std::string_view key) {
  std::string_view out;
  return of[key].get(out) ? std::string() : engine::text::printable(out);
}

void print_accounts(simdjson::dom::element candidate) {
  simdjson::dom::object accounts;
  if (candidate["accounts"].get(accounts)) return;
  fmt::print("  {}:", text(candidate, "target"));
  for (const auto& [name, of] : accounts) {
    double seconds = 0;
    if (!of.get(seconds)) {
      fmt::print("  {} {:.4f}", name, seconds);
    } else {
      fmt::print("  {} {:.0f} of {:.0f}", name, number(of, "used"), number(of, "total"));
      if (number(of, "kept") > 0) fmt::print(" ({:.0f} kept)", number(of, "kept"));
    }
  }
  fmt::print("\n");
}

int print(const std::string& answer) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(answer).get(root)) {
    std::fprintf(stderr, "weir explain: the answer is not JSON: %s\n",
                 engine::text::printable(answer, 200).c_str());
    return k_failed;
  }
  simdjson::dom::element prompt;
  simdjson::dom::array candidates;
  if (root["prompt"].get(prompt) || root["candidates"].get(candidates)) return k_failed;
  fmt::print("model {}: {:.0f} prompt tokens, keyed by {}\n\n", text(root, "model"), number(prompt, "tokens"),
             text(prompt, "keyed"));
  fmt::print("{:<20} {:<21} {:>10} {:>10} {:<10} {:>9} {:>9} {:>6} {:>11} {:>11}\n", "target", "verdict",
             "pages", "reusable", "evidence", "TTFT s", "ITL ms", "P", "cost USD", "score");
  for (const auto c : candidates) {
    fmt::print("{:<20} {:<21} {:>10.0f} {:>10.0f} {:<10} {:>9.3f} {:>9.1f} {:>6.2f} {:>11.3g} {:>11.4g}\n",
               text(c, "target"), text(c, "verdict"), number(c, "page_tokens"), number(c, "reusable_tokens"),
               text(c, "evidence"), number(c, "ttft_s"), number(c, "itl_s") * 1000,
               number(c, "contract_probability"), number(c, "cost_usd"), number(c, "score"));
  }
  for (const auto c : candidates) print_accounts(c);
  return k_ok;
}

int explain(const explain_options& options) {
  auto body = read_all(options.file);
  if (!body) {
    std::fprintf(stderr, "weir explain: %s\n", body.error().c_str());
    return k_bad_config;
  }
  std::string asked = R"({"tenant":)";
  api::append_quoted(asked, options.tenant);
  asked += R"(,"key":)";
  api::append_quoted(asked, options.key);
  asked += R"(,"request":)" + *body + '}';
  const auto answer = call_admin(options.at, boost::beast::http::verb::post, "/admin/v1/explain", asked);
  if (!answer) {
    std::fprintf(stderr, "weir explain: %s\n", answer.error().message.c_str());
    return answer.error().exit_code;
  }
  if (!options.json) return print(*answer);
  std::printf("%s\n", engine::text::printable(*answer).c_str());
  return k_ok;
}

}  // namespace

void add_explain(CLI::App& app, command& chosen) {
  auto options = std::make_shared<explain_options>();
  auto* sub = app.add_subcommand("explain", "Say where a running weir would send a request, and why");
  sub->add_option("request", options->file, "The body of the request, as JSON; - reads standard input")
      ->required();
  add_admin_options(*sub, options->at);
  sub->add_option("--tenant", options->tenant, "Whose request it would be: tenants share no cached prompts");
  sub->add_option("--key", options->key, "The name of the key that would send it");
  sub->add_flag("--json", options->json, "Print the answer as it came");
  sub->footer(
      "Nothing is sent to a target and nothing is counted. The table has a line per target: what speaks "
      "against\n"
      "it or that it was chosen, pages and reusable tokens of the prompt that it holds and from what "
      "evidence,\n"
      "the predicted time to first token and between tokens, the chance P of the latency contract, the "
      "price,\n"
      "and the score, of which the least wins. Below, for targets with accounts: what of each is taken.\n\n"
      "Example:\n"
      "  echo '{\"model\":\"kimi\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}' | weir explain -");
  sub->callback([options, &chosen] { chosen = [options] { return explain(*options); }; });
}

}  // namespace weir::gateway::cli
