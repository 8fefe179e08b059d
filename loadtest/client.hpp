// One streamed completion, of a chat or of a prompt, over its own connection, with the times that matter.
// One request, one io_context thread.
#pragma once

#include <simdjson.h>

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace weir::loadtest {

struct request_spec {
  std::string host;
  std::string port;
  std::string path = "/v1/chat/completions";
  std::string api_key;                         // empty: none is sent
  std::string body;                            // JSON with "stream": true
  std::chrono::milliseconds timeout{600'000};  // of the whole exchange
  bool check_sequence = false;                 // the tokens are numbered: " tok0", " tok1", ...
};

struct request_result {
  bool ok = false;
  std::string failure;              // why not ok: a status, a transport fault, an error event
  double first_token_s = 0;         // from sending to the first event with content
  double duration_s = 0;            // from sending to the last byte
  std::vector<double> gaps_s;       // between events with content
  std::int64_t output_tokens = 0;   // as the server reports, else events with content
  std::int64_t prompt_tokens = -1;  // as the server reports; -1: it does not
  std::int64_t cached_tokens = -1;  // likewise
  std::int64_t tokens_lost = 0;     // by their numbers
  std::int64_t tokens_reordered = 0;
};

// `parser`: lent for as long as an event takes, so thousands of streams can share one.
boost::asio::awaitable<request_result> run_request(const request_spec& spec, simdjson::dom::parser& parser);

}  // namespace weir::loadtest
