#include "tests/gateway/http/wire_cases.hpp"

namespace weir::gateway::http::testing {
namespace {

using namespace std::string_literals;

std::string post(const std::string& fields) {
  return "POST /echo HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n\r\n";
}
std::string length(const std::string& value) {
  return post("Content-Length: " + value);
}
std::string coding(const std::string& value) {
  return post("Transfer-Encoding: " + value);
}

std::vector<head_case> length_cases() {
  return {
      {"CL 0", length("0"), 200},
      {"CL with leading zeros", length("00"), 200},
      {"CL plus sign", length("+5"), 400},
      {"CL minus sign", length("-48"), 400},
      {"CL minus zero", length("-0"), 400},
      {"CL hexadecimal", length("0x5"), 400},
      {"CL hexadecimal digits", length("5a"), 400},
      {"CL underscore", length("1_0"), 400},
      {"CL space within", length("1 0"), 400},
      {"CL tab within", length("1\t0"), 400},
      {"CL list of equals", length("0, 0"), 400},
      {"CL list that differs", length("0, 1"), 400},
      {"CL empty", length(""), 400},
      {"CL spaces", length("   "), 400},
      {"CL over 2^63-1", length("9223372036854775808"), 400},
      {"CL over 2^64", length("18446744073709551617"), 400},
      {"CL of 100 digits", length(std::string(100, '9')), 400},
      {"CL trailing junk", length("5;"), 400},
      {"CL fraction", length("5.0"), 400},
      {"CL quoted", length("\"5\""), 400},
      {"CL NBSP",
       length("\xa0"
              "5"),
       400},
      {"CL fullwidth digit", length("\xef\xbc\x95"), 400},
      {"CL twice, equal", post("Content-Length: 0\r\nContent-Length: 0"), 400},
      {"CL twice, differing", post("Content-Length: 0\r\nContent-Length: 7"), 400},
      {"CL empty then CL", post("Content-Length:\r\nContent-Length: 0"), 400},
      {"body on GET", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400},
      {"CL 0 on GET", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 200},
      {"body on HEAD", "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400},
      {"body on DELETE", "DELETE / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400},
      {"chunked GET", "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
  };
}

}  // namespace

std::vector<head_case> framing_cases() {
  std::vector<head_case> out = length_cases();
  const std::vector<head_case> codings{
      {"TE then CL", post("Transfer-Encoding: chunked\r\nContent-Length: 5"), 400},
      {"CL then TE", post("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400},
      {"TE identity then CL", post("Transfer-Encoding: identity\r\nContent-Length: 5"), 400},
      {"CL then TE identity", post("Content-Length: 5\r\nTransfer-Encoding: identity"), 400},
      {"TE on HTTP/1.0", "POST /echo HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"TE twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), 400},
      {"TE twice, identity first", post("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"), 400},
      {"TE empty", coding(""), 400},
      {"TE empty and CL", post("Transfer-Encoding:\r\nContent-Length: 5"), 400},
      {"TE identity", coding("identity"), 501},
      {"TE gzip", coding("gzip"), 501},
      {"TE pigeons", coding("pigeons"), 501},
      {"TE xchunked", coding("xchunked"), 501},
      {"TE chunkedchunked", coding("chunkedchunked"), 501},
      {"TE chunked-ish", coding("chunke"), 501},
      {"TE gzip, chunked", coding("gzip, chunked"), 501},
      {"TE with a parameter", coding("gzip;q=\"1,2\" , chunked"), 501},
      {"TE chunked, gzip", coding("chunked, gzip"), 400},
      {"TE chunked, identity", coding("chunked, identity"), 400},
      {"TE chunked, chunked", coding("chunked, chunked"), 400},
      {"TE ,chunked", coding(",chunked"), 400},
      {"TE chunked,", coding("chunked,"), 400},
      {"TE chunked;q=1", coding("chunked;q=1"), 400},
      {"TE quoted", coding("\"chunked\""), 400},
      {"TE single-quoted", coding("'chunked'"), 501},
      {"TE NBSP before",
       coding("\xa0"
              "chunked"),
       400},
      {"TE NBSP after", coding("chunked\xa0"), 400},
      {"TE 0x85 after", coding("chunked\x85"), 400},
      {"TE VT before", coding("\vchunked"), 400},
      {"TE VT after", coding("chunked\v"), 400},
      {"TE NUL after", coding("chunked\0"s), 400},
      {"TE two words", coding("chunked chunked"), 400},
      {"TE semicolon", coding("gzip;"), 400},
      {"TE parameter without value", coding("gzip;q="), 400},
      {"TE open quote", coding("gzip;q=\"1"), 400},
      {"TE name with space", post("Transfer-Encoding : chunked"), 400},
  };
  out.insert(out.end(), codings.begin(), codings.end());
  return out;
}

}  // namespace weir::gateway::http::testing
