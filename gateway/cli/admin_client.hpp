// One request of the command line to the admin address of a running weir. Blocks; any thread.
#pragma once

#include <boost/beast/http/verb.hpp>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <string>

namespace CLI {
class App;
}

namespace weir::gateway::cli {

struct admin_address {
  std::string url = "http://127.0.0.1:9090";
  std::filesystem::path key_file;  // empty: no key is sent
  std::int64_t timeout_s = 10;     // of one request, from its connection to the end of its answer
};

// --url, --admin-key-file and --timeout-s.
void add_admin_options(CLI::App& app, admin_address& out);

struct admin_failure {
  int exit_code;
  std::string message;  // what to do included
};

// The body of a 2xx answer, as it came. `target`: path and query. A failure's message is fit for a terminal.
std::expected<std::string, admin_failure> call_admin(const admin_address& at, boost::beast::http::verb method,
                                                     const std::string& target, const std::string& body = {});

// As a segment of a path.
std::string path_segment(std::string_view text);

}  // namespace weir::gateway::cli
