#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstdio>
#include <expected>
#include <fstream>
#include <iostream>
#include <iterator>

#include "gateway/api/json.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/config/base_url.hpp"

namespace weir::gateway::cli {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

constexpr long k_timeout_s = 10;
constexpr std::size_t k_request_bytes_max = 64 << 20;

struct explain_options {
  std::string url = "http://127.0.0.1:9090";
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

std::expected<std::string, std::string> post(const config::base_url& url, const std::string& body) {
  try {
    asio::io_context io(1);
    asio::ip::tcp::socket socket(io);
    asio::ip::tcp::resolver resolver(io);
    asio::connect(socket, resolver.resolve(url.host, std::to_string(url.port)));
    const timeval limit{.tv_sec = k_timeout_s, .tv_usec = 0};
    for (const int which : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      setsockopt(socket.native_handle(), SOL_SOCKET, which, &limit, sizeof limit);
    }
    beast::http::request<beast::http::string_body> request{beast::http::verb::post, "/admin/v1/explain", 11};
    request.set(beast::http::field::host, url.authority);
    request.set(beast::http::field::content_type, "application/json");
    request.body() = body;
    request.prepare_payload();
    beast::http::write(socket, request);
    beast::flat_buffer buffer;
    beast::http::response<beast::http::string_body> response;
    beast::http::read(socket, buffer, response);
    return std::move(response.body());
  } catch (const boost::system::system_error& e) {
    return std::unexpected(fmt::format("{}: {}; is that the admin address of a running weir?", url.authority,
                                       e.code().message()));
  }
}

double number(simdjson::dom::element of, std::string_view key) {
  double out = 0;
  return of[key].get(out) ? 0 : out;
}

std::string_view text(simdjson::dom::element of, std::string_view key) {
  std::string_view out;
  return of[key].get(out) ? std::string_view() : out;
}

int print(const std::string& answer) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(answer).get(root)) {
    std::fprintf(stderr, "weir explain: the answer is not JSON: %s\n", answer.substr(0, 200).c_str());
    return k_failed;
  }
  simdjson::dom::element error;
  if (!root["error"].get(error)) {
    std::fprintf(stderr, "weir explain: %s\n", std::string(text(error, "message")).c_str());
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
  return k_ok;
}

int explain(const explain_options& options) {
  const auto url = config::parse_base_url(options.url);
  if (!url || url->tls) {
    std::fprintf(stderr, "weir explain: --url %s: expected http://HOST:PORT\n", options.url.c_str());
    return k_bad_config;
  }
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
  const auto answer = post(*url, asked);
  if (!answer) {
    std::fprintf(stderr, "weir explain: %s\n", answer.error().c_str());
    return k_failed;
  }
  if (!options.json) return print(*answer);
  std::printf("%s\n", answer->c_str());
  return k_ok;
}

}  // namespace

void add_explain(CLI::App& app, command& chosen) {
  auto options = std::make_shared<explain_options>();
  auto* sub = app.add_subcommand("explain", "Say where a running weir would send a request, and why");
  sub->add_option("request", options->file, "The body of the request, as JSON; - reads standard input")
      ->required();
  sub->add_option("--url", options->url, "Its admin address")->capture_default_str();
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
      "and the score, of which the least wins.\n\n"
      "Example:\n"
      "  echo '{\"model\":\"kimi\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}' | weir explain -");
  sub->callback([options, &chosen] { chosen = [options] { return explain(*options); }; });
}

}  // namespace weir::gateway::cli
