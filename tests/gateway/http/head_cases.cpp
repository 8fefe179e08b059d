#include "tests/gateway/http/wire_cases.hpp"

namespace weir::gateway::http::testing {
namespace {

using namespace std::string_literals;

std::string line(const std::string& request_line) {
  return request_line + "\r\nHost: a\r\n\r\n";
}
std::string target(const std::string& t) {
  return line("GET " + t + " HTTP/1.1");
}
std::string version(const std::string& v) {
  return line("GET / " + v);
}
std::string fields(const std::string& f) {
  return "POST /echo HTTP/1.1\r\nHost: a\r\n" + f + "\r\n";
}
std::string host(const std::string& h) {
  return "GET / HTTP/1.1\r\nHost: " + h + "\r\n\r\n";
}

std::string many_fields(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += "a:b\r\n";
  return out;
}

std::string head_of_size(std::size_t bytes) {
  const std::string begin = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  return begin + std::string(bytes - begin.size() - 4, 'x') + "\r\n\r\n";
}

void add(std::vector<head_case>& out, const std::vector<head_case>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

std::vector<head_case> target_cases() {
  return {
      {"plain target", target("/"), 200},
      {"query", target("/a?b=c&d=%2Fe"), 200},
      {"double slash is a path", target("//a"), 200},
      {"target of 8000 bytes", target("/" + std::string(7999, 'a')), 200},
      {"target of 8001 bytes", target("/" + std::string(8000, 'a')), 414},
      {"target without an end", "GET /" + std::string(20000, 'a'), 414},
      {"target without slash", target("!"), 400},
      {"relative target", target("v1/models"), 400},
      {"fragment", target("/a#frag"), 400},
      {"byte 0x80 in target", target("/\x80"), 400},
      {"byte 0x7f in target", target("/\x7f"), 400},
      {"UTF-8 in target", target("/\xc3\xa9"), 400},
      {"backslash", target("/a\\b"), 400},
      {"encoded NUL", target("/a%00b"), 400},
      {"encoded NUL in query", target("/a?b=%00"), 400},
      {"encoded slash", target("/a%2fb"), 400},
      {"encoded slash, upper", target("/a%2Fb"), 400},
      {"encoded backslash", target("/a%5cb"), 400},
      {"percent at end", target("/a%"), 400},
      {"percent and one digit", target("/a%4"), 400},
      {"percent and no digits", target("/a%zz"), 400},
      {"absolute form", target("http://a/"), 400},
      {"absolute form, other host", target("http://b/admin"), 400},
      {"absolute form, upper scheme", target("HTTPS://a/"), 400},
      {"authority form", target("a:80"), 400},
      {"OPTIONS *", line("OPTIONS * HTTP/1.1"), 200},
      {"GET *", target("*"), 400},
      {"OPTIONS *x", line("OPTIONS *x HTTP/1.1"), 400},
  };
}

std::vector<head_case> host_cases() {
  return {
      {"no Host", "GET / HTTP/1.1\r\nA: b\r\n\r\n", 400},
      {"no Host in HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", 200},
      {"two Hosts", host("a\r\nHost: a"), 400},
      {"two Hosts, other case", host("a\r\nhOST: b"), 400},
      {"empty Host", host(""), 400},
      {"Host with a port", host("a.example:8080"), 200},
      {"Host IPv4", host("127.0.0.1:80"), 200},
      {"Host IPv6", host("[::1]:8080"), 200},
      {"Host IPv6 without port", host("[2001:db8::1]"), 200},
      {"Host half IPv6", host("[::1"), 400},
      {"Host bare IPv6", host("::1"), 400},
      {"Host text before bracket", host("a[::1]"), 400},
      {"Host text after bracket", host("[::1]a"), 400},
      {"Host not IPv6 in brackets", host("[a]"), 400},
      {"Host user info", host("a b@c"), 400},
      {"Host at sign", host("a@c"), 400},
      {"Host two ports", host("a:80:80"), 400},
      {"Host port too large", host("a:65536"), 400},
      {"Host port of six digits", host("a:000080"), 400},
      {"Host port not a number", host("a:http"), 400},
      {"Host only a port", host(":80"), 400},
      {"Host two dots", host("a..b"), 400},
      {"Host leading dot", host(".a"), 400},
      {"Host backslash", host("a\\b"), 400},
      {"Host slash", host("a/b"), 400},
      {"Host comma", host("a,b"), 400},
      {"Host 0x80", host("a\x80"), 400},
      {"Host NBSP",
       host("\xa0"
            "a"),
       400},
      {"Host of 300 bytes", host(std::string(300, 'a')), 400},
  };
}

}  // namespace

std::vector<head_case> request_line_cases() {
  std::vector<head_case> out{
      {"one SP", line("GET /"), 400},
      {"HTTP/0.9 form", "GET /\r\n", 400},
      {"no target", line("GET  HTTP/1.1"), 400},
      {"two SP after method", line("GET  / HTTP/1.1"), 400},
      {"two SP after target", line("GET /  HTTP/1.1"), 400},
      {"trailing SP", line("GET / HTTP/1.1 "), 400},
      {"leading SP", line(" GET / HTTP/1.1"), 400},
      {"leading tab", line("\tGET / HTTP/1.1"), 400},
      {"tab after method", line("GET\t/ HTTP/1.1"), 400},
      {"tab after target", line("GET /\tHTTP/1.1"), 400},
      {"vertical tab", line("GET /\vHTTP/1.1"), 400},
      {"bare LF ends request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400},
      {"bare CR in request line", "GET /\rHTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"LF only", "GET / HTTP/1.1\nHost: a\n\n", 400},
      {"NUL in request line", line("GET /\0 HTTP/1.1"s), 400},
      {"TLS hello", "\x16\x03\x01\x02\x00\x01"s, 400},
      {"method with a colon", line("GE:T / HTTP/1.1"), 400},
      {"method with 0x80", line("GE\x80T / HTTP/1.1"), 400},
      {"method with parentheses", line("GET() / HTTP/1.1"), 400},
      {"method with punctuation", line("G!E#T / HTTP/1.1"), 501},
      {"unknown method", line("BREW / HTTP/1.1"), 501},
      {"known elsewhere", line("PROPFIND / HTTP/1.1"), 501},
      {"lower case method", line("get / HTTP/1.1"), 501},
      {"mixed case method", line("Get / HTTP/1.1"), 501},
      {"method without an end", std::string(9000, 'A'), 400},
      {"CONNECT", line("CONNECT a:443 HTTP/1.1"), 405},
      {"TRACE", line("TRACE / HTTP/1.1"), 405},
      {"GET", line("GET / HTTP/1.1"), 200},
      {"HEAD", line("HEAD / HTTP/1.1"), 200},
      {"PUT", line("PUT / HTTP/1.1"), 200},
      {"PATCH", line("PATCH / HTTP/1.1"), 200},
      {"DELETE", line("DELETE / HTTP/1.1"), 200},
      {"one empty line before", "\r\n" + line("GET / HTTP/1.1"), 200},
      {"two empty lines before", "\r\n\r\n" + line("GET / HTTP/1.1"), 200},
      {"three empty lines before", "\r\n\r\n\r\n" + line("GET / HTTP/1.1"), 400},
      {"empty LF line before", "\n" + line("GET / HTTP/1.1"), 400},
      {"CR before", "\r" + line("GET / HTTP/1.1"), 400},
      {"HTTP/1.0", version("HTTP/1.0"), 200},
      {"lower case version", version("http/1.1"), 400},
      {"other protocol", version("HTCP/1.1"), 400},
      {"version without number", version("HTTP/"), 400},
      {"HTTP/1", version("HTTP/1"), 400},
      {"HTTP/1.", version("HTTP/1."), 400},
      {"HTTP/1.10", version("HTTP/1.10"), 400},
      {"HTTP/01.1", version("HTTP/01.1"), 400},
      {"HTTP/1.2", version("HTTP/1.2"), 400},
      {"HTTP/1.9", version("HTTP/1.9"), 400},
      {"HTTP/0.9", version("HTTP/0.9"), 400},
      {"HTTP/2.0", version("HTTP/2.0"), 400},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"HTTP/3.0", version("HTTP/3.0"), 505},
      {"HTTP/9.9", version("HTTP/9.9"), 505},
      {"huge version", version("HTTP/4294967295.255"), 400},
      {"sign in version", version("HTTP/+1.1"), 400},
      {"incomplete request line", "GET / HT", 0},
      {"nothing", "", 0},
      {"only an empty line", "\r\n", 0},
  };
  add(out, target_cases());
  return out;
}

std::vector<head_case> field_cases() {
  std::vector<head_case> out = host_cases();
  add(out, {
               {"SP before colon", fields("A : b\r\n"), 400},
               {"tab before colon", fields("A\t: b\r\n"), 400},
               {"empty name", fields(": b\r\n"), 400},
               {"no colon", fields("Ab\r\n"), 400},
               {"name with SP", fields("A b: c\r\n"), 400},
               {"name with parenthesis", fields("A(: c\r\n"), 400},
               {"name with 0x85", fields("A\x85: c\r\n"), 400},
               {"name with leading 0xa0",
                fields("\xa0"
                       "A: c\r\n"),
                400},
               {"NUL in name", fields("A\0: c\r\n"s), 400},
               {"name on two lines", fields("Content-\r\nLength: 5\r\n"), 400},
               {"NUL in value", fields("A: b\0c\r\n"s), 400},
               {"control in value",
                fields("A: b\x01"
                       "c\r\n"),
                400},
               {"DEL in value", fields("A: b\x7f\r\n"), 400},
               {"vertical tab in value", fields("A: b\vc\r\n"), 400},
               {"escape in value", fields("A: b\x1b[0m\r\n"), 400},
               {"tab in value", fields("A: b\tc\r\n"), 200},
               {"obs-text in value", fields("A: \x85 \xa0\r\n"), 200},
               {"empty value", fields("A:\r\n"), 200},
               {"value of spaces", fields("A:  \t \r\n"), 200},
               {"bare LF in value", fields("A: b\nC: d\r\n"), 400},
               {"bare CR in value", fields("A: b\rC: d\r\n"), 400},
               {"bare CR before CRLF", fields("A: b\r\r\n"), 400},
               {"obs-fold SP", fields("A: b\r\n c\r\n"), 400},
               {"obs-fold tab", fields("A: b\r\n\tc\r\n"), 400},
               {"obs-fold hiding chunked", fields("A: b\r\n Transfer-Encoding: chunked\r\n"), 400},
               {"space before first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
               {"head ends in CR and text", "GET / HTTP/1.1\r\nHost: a\r\n\rX", 400},
               {"head ends in CRLF and NUL", "GET / HTTP/1.1\r\nHost: a\r\n\0"s, 400},
               {"disguised framing name", fields("Content_Length: 5\r\n"), 400},
               {"disguised coding name", fields("transfer_Encoding: chunked\r\n"), 400},
               {"disguised credential name", fields("x_api-key: k\r\n"), 400},
               {"other name with underscore", fields("my_header: k\r\n"), 200},
               {"100 fields", "GET / HTTP/1.1\r\nHost: a\r\n" + many_fields(99) + "\r\n", 200},
               {"101 fields", "GET / HTTP/1.1\r\nHost: a\r\n" + many_fields(100) + "\r\n", 431},
               {"5000 fields", "GET / HTTP/1.1\r\nHost: a\r\n" + many_fields(5000) + "\r\n", 431},
               {"head of 32 KiB", head_of_size(32 * 1024), 200},
               {"head of 32 KiB and a byte", head_of_size(32 * 1024 + 1), 431},
               {"head of 200 KB", head_of_size(200'000), 431},
               {"field without an end", "GET / HTTP/1.1\r\nA: " + std::string(40'000, 'a'), 431},
               {"Connection list", fields("Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n"), 200},
               {"Connection names Authorization", fields("Connection: authorization, host\r\n"), 200},
               {"Connection malformed", fields("Connection: keep alive\r\n"), 400},
               {"Expect other", fields("Expect: 200-ok\r\n"), 417},
               {"Expect twice", fields("Expect: 100-continue\r\nExpect: 100-continue\r\n"), 417},
               {"Expect empty", fields("Expect:\r\n"), 417},
               {"Expect 100-Continue", fields("Expect: 100-Continue\r\nContent-Length: 0\r\n"), 200},
               {"incomplete field", "GET / HTTP/1.1\r\nHost: a", 0},
               {"incomplete head", "GET / HTTP/1.1\r\nHost: a\r\n", 0},
               {"incomplete last line", "GET / HTTP/1.1\r\nHost: a\r\n\r", 0},
           });
  return out;
}

std::vector<head_case> all_head_cases() {
  std::vector<head_case> out = request_line_cases();
  add(out, field_cases());
  add(out, framing_cases());
  return out;
}

}  // namespace weir::gateway::http::testing
