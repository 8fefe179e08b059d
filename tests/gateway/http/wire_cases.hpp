// The edge's profile as data: every input with the one status it gets. The same tables drive the parsers in
// process and a listener over sockets.
#pragma once

#include <string>
#include <vector>

namespace weir::gateway::http::testing {

struct head_case {
  std::string name;
  std::string bytes;  // a whole head, or up to and beyond the fault
  int status;         // 200: accepted; 0: incomplete
};

struct chunked_case {
  std::string name;
  std::string bytes;  // of the chunked body, as sent
  int status;         // 200: complete, with `body` and `rest`; 0: incomplete
  std::string body = {};
  std::string rest = {};  // bytes behind the body that must be left alone
};

inline constexpr std::size_t k_chunked_case_body_max = 1000;  // limit that the chunked cases assume

std::vector<head_case> request_line_cases();
std::vector<head_case> field_cases();
std::vector<head_case> framing_cases();
std::vector<head_case> all_head_cases();
std::vector<chunked_case> chunked_cases();

}  // namespace weir::gateway::http::testing
