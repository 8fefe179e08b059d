#include "tests/gateway/http/wire_cases.hpp"

namespace weir::gateway::http::testing {
namespace {

using namespace std::string_literals;

std::string trailer(const std::string& lines) {
  return "0\r\n" + lines + "\r\n";
}

std::string extensions(int chunks) {
  std::string out;
  for (int i = 0; i < chunks; ++i) out += "1;" + std::string(249, 'e') + "\r\nx\r\n";
  return out + "0\r\n\r\n";
}

std::vector<chunked_case> size_cases() {
  return {
      {"empty body", "0\r\n\r\n", 200},
      {"two chunks", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200, "abcde"},
      {"hexadecimal sizes", "A\r\n0123456789\r\na\r\nabcdefghij\r\n0\r\n\r\n", 200, "0123456789abcdefghij"},
      {"next request behind", "1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n", 200, "x", "GET / HTTP/1.1\r\n"},
      {"stray byte behind", "0\r\n\r\nX", 200, "", "X"},
      {"16 digits", "0000000000000001\r\nx\r\n0\r\n\r\n", 200, "x"},
      {"17 digits", "00000000000000001\r\nx\r\n0\r\n\r\n", 400},
      {"2000 zeros", std::string(2000, '0') + "\r\n\r\n", 400},
      {"size empty", "\r\n\r\n", 400},
      {"size plus", "+1\r\nx\r\n0\r\n\r\n", 400},
      {"size minus", "-1\r\nx\r\n0\r\n\r\n", 400},
      {"size 0x", "0x1\r\nx\r\n0\r\n\r\n", 400},
      {"size underscore", "1_0\r\nx\r\n0\r\n\r\n", 400},
      {"size not hexadecimal", "g\r\nx\r\n0\r\n\r\n", 400},
      {"size leading SP", " 1\r\nx\r\n0\r\n\r\n", 400},
      {"size leading tab", "\t1\r\nx\r\n0\r\n\r\n", 400},
      {"size trailing SP", "1 \r\nx\r\n0\r\n\r\n", 400},
      {"size trailing tab", "1\t\r\nx\r\n0\r\n\r\n", 400},
      {"size trailing NUL", "1\0\r\nx\r\n0\r\n\r\n"s, 400},
      {"size all ones", "FFFFFFFFFFFFFFFF\r\nx", 413},
      {"size over the limit", "3E9\r\n", 413},
      {"size at the limit", "3E8\r\n" + std::string(1000, 'x') + "\r\n0\r\n\r\n", 200,
       std::string(1000, 'x')},
      {"sum over the limit", "3E8\r\n" + std::string(1000, 'x') + "\r\n1\r\n", 413},
      {"size line ends in LF", "1\nx\r\n0\r\n\r\n", 400},
      {"size line ends in CR", "1\rx\r\n0\r\n\r\n", 400},
      {"data not followed by CRLF", "1\r\nxy\r\n0\r\n\r\n", 400},
      {"data followed by LF", "1\r\nx\n0\r\n\r\n", 400},
      {"data followed by CR", "1\r\nx\r0\r\n\r\n", 400},
      {"no resynchronisation", "1\r\nxyz\r\n0\r\n\r\n", 400},
      {"extra CRLF between chunks", "1\r\nx\r\n\r\n0\r\n\r\n", 400},
      {"last chunk and two other bytes", "0\r\nXX", 0},
      {"last chunk ends in LF", "0\r\n\n", 400},
      {"last chunk, CR and other", "0\r\n\rX", 400},
      {"incomplete size", "1", 0},
      {"incomplete data", "3\r\nab", 0, "ab"},
      {"incomplete end", "1\r\nx\r\n0\r\n\r", 0, "x"},
  };
}

std::vector<chunked_case> extension_cases() {
  return {
      {"extension name", "1;a\r\nx\r\n0;b\r\n\r\n", 200, "x"},
      {"extension value", "1;a=b;c=d\r\nx\r\n0\r\n\r\n", 200, "x"},
      {"extension quoted", "1;a=\"b;c\\\"d\t\"\r\nx\r\n0\r\n\r\n", 200, "x"},
      {"extension quoted, then another", "1;a=\"b\";c\r\nx\r\n0\r\n\r\n", 200, "x"},
      {"extension of 256 bytes", "1;" + std::string(255, 'e') + "\r\nx\r\n0\r\n\r\n", 200, "x"},
      {"extension of 257 bytes", "1;" + std::string(256, 'e') + "\r\nx\r\n0\r\n\r\n", 400},
      {"extension of 100 KB", "1;" + std::string(100'000, 'e') + "\r\nx\r\n0\r\n\r\n", 400},
      {"extensions of 16 KiB", extensions(65), 200, std::string(65, 'x')},
      {"extensions over 16 KiB", extensions(66), 400},
      {"extension without name", "1;\r\nx\r\n0\r\n\r\n", 400},
      {"extension without name, value", "1;=b\r\nx\r\n0\r\n\r\n", 400},
      {"extension without value", "1;a=\r\nx\r\n0\r\n\r\n", 400},
      {"extension open quote", "1;a=\"b\r\nx\r\n0\r\n\r\n", 400},
      {"extension text after quote", "1;a=\"b\"c\r\nx\r\n0\r\n\r\n", 400},
      {"extension control in quotes", "1;a=\"\x01\"\r\nx\r\n0\r\n\r\n", 400},
      {"extension LF", "1;a\nx\r\n0\r\n\r\n", 400},
      {"extension CR", "1;a\rx\r\n0\r\n\r\n", 400},
      {"extension with white space", "1; a = b\r\nx\r\n0\r\n\r\n", 400},
      {"extension with NUL", "1;a\0\r\nx\r\n0\r\n\r\n"s, 400},
  };
}

std::vector<chunked_case> trailer_cases() {
  return {
      {"trailer dropped", trailer("X-Checksum: 1\r\nServer-Timing: a\r\n"), 200},
      {"trailer Content-Length", trailer("Content-Length: 5\r\n"), 400},
      {"trailer Transfer-Encoding", trailer("transfer-encoding: chunked\r\n"), 400},
      {"trailer Host", trailer("Host: b\r\n"), 400},
      {"trailer Authorization", trailer("AUTHORIZATION: Bearer x\r\n"), 400},
      {"trailer x-api-key", trailer("x-api-key: x\r\n"), 400},
      {"trailer Content-Type", trailer("Content-Type: text/plain\r\n"), 400},
      {"trailer Content-Anything", trailer("content-md5: x\r\n"), 400},
      {"trailer Connection", trailer("Connection: close\r\n"), 400},
      {"trailer Trailer", trailer("Trailer: a\r\n"), 400},
      {"trailer disguised", trailer("content_length: 5\r\n"), 400},
      {"trailer obs-fold", trailer("A: b\r\n c\r\n"), 400},
      {"trailer without colon", trailer("Ab\r\n"), 400},
      {"trailer SP before colon", trailer("A : b\r\n"), 400},
      {"trailer bare LF", trailer("A: b\nC: d\r\n"), 400},
      {"trailer bare CR", trailer("A: b\rC: d\r\n"), 400},
      {"trailer NUL", trailer("A: b\0\r\n"s), 400},
      {"trailers of 8 KiB", trailer("A: " + std::string(8192 - 7, 'a') + "\r\n"), 200},
      {"trailers over 8 KiB", trailer("A: " + std::string(8192 - 6, 'a') + "\r\n"), 431},
      {"trailer of 100 KB", trailer("A: " + std::string(100'000, 'a') + "\r\n"), 431},
      {"next request as trailer", "0\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"incomplete trailer", "0\r\nA: b\r\n", 0},
  };
}

}  // namespace

std::vector<chunked_case> chunked_cases() {
  std::vector<chunked_case> out = size_cases();
  for (const auto& more : {extension_cases(), trailer_cases()})
    out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace weir::gateway::http::testing
