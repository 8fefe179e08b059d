#include "gateway/upstream/error_reply.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>

namespace weir::gateway::upstream {

TEST_CASE("statuses that are the target's answer to the client") {
  for (const int status : {400, 408, 409, 413, 415, 422, 429, 500, 502, 503, 504, 529, 599}) {
    INFO(status);
    CHECK(passes_to_client(status));
  }
  for (const int status : {100, 200, 204, 301, 307, 401, 402, 403, 404, 405, 407, 421, 600}) {
    INFO(status);
    CHECK_FALSE(passes_to_client(status));
  }
}

TEST_CASE("an error of the right shape passes unchanged") {
  const char* const rows[] = {
      R"({"error":{"message":"m","type":"t","param":"p","code":"c"}})",
      R"( {"error" : {"message":"m","type":null,"param":null,"code":null,"vendor":[1]},"x":2} )",
  };
  for (const char* body : rows) CHECK_FALSE(normalise_error(400, body).has_value());
}

TEST_CASE("errors of every other shape keep their message") {
  struct row {
    const char* name;
    int status;
    std::string body;
    std::string expected;  // within {"error":{...}}
  };
  const std::string mine = R"(,"type":"invalid_request_error","param":null,"code":null)";
  const std::string theirs = R"(,"type":"server_error","param":null,"code":null)";
  const row rows[] = {
      {"an integer code", 400, R"({"error":{"message":"m","type":"BadRequestError","param":"n","code":400}})",
       R"("message":"m","type":"BadRequestError","param":"n","code":"400")"},
      {"the flat form", 404,
       R"({"object":"error","message":"no \"x\"","type":"NotFoundError","param":null,"code":404})",
       R"("message":"no \"x\"","type":"NotFoundError","param":null,"code":"404")"},
      {"a code of another type", 422, R"({"error":{"message":"m","code":{"a":1},"param":[]}})",
       R"("message":"m")" + mine},
      {"a message alone", 400, R"({"error":{"message":"m"}})", R"("message":"m")" + mine},
      {"no message", 503, R"({"error":{"code":5}})",
       R"("message":"the target answered 503","type":"server_error","param":null,"code":"5")"},
      {"an empty error", 500, R"({"error":{}})", R"("message":"the target answered 500")" + theirs},
      {"a text", 429, R"({"error":"slow down"})", R"("message":"slow down")" + mine},
      {"error null and detail", 400, R"({"error":null,"detail":"d"})", R"("message":"d")" + mine},
      {"detail", 422, R"({"detail":"Not right"})", R"("message":"Not right")" + mine},
      {"detail as a list", 422, R"({"detail":[{"loc":["body", 1],"msg":"x"}]})",
       R"("message":"[{\"loc\":[\"body\",1],\"msg\":\"x\"}]")" + mine},
      {"a page", 502, "<html>\n\"Bad\" Gateway</html>",
       R"("message":"<html>\n\"Bad\" Gateway</html>")" + theirs},
      {"nothing", 500, "", R"("message":"the target answered 500")" + theirs},
      {"other JSON", 400, R"({"oops":1})", R"("message":"{\"oops\":1}")" + mine},
      {"an array", 400, "[1]", R"("message":"[1]")" + mine},
      {"cut JSON", 400, R"({"error":{"message":"m)", R"("message":"{\"error\":{\"message\":\"m")" + mine},
      {"bad UTF-8", 400, "a\xff", "\"message\":\"a\xEF\xBF\xBD\"" + mine},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(normalise_error(r.status, r.body).value_or("") == "{\"error\":{" + r.expected + "}}");
  }
}

TEST_CASE("a long message is cut to valid JSON") {
  std::string text = "x";  // a character lies across the cut
  for (int i = 0; i < 5000; ++i) text += "\xc3\xa9";
  for (const std::string& body : {text, R"({"detail":")" + text + "\"}", R"({"message":")" + text + "\"}"}) {
    const std::string out = normalise_error(500, body).value_or("");
    CHECK(out.size() < 4300);
    simdjson::dom::parser parser;
    std::string_view message;
    REQUIRE(!parser.parse(out)["error"]["message"].get(message));
    CHECK(message.starts_with("x\xc3\xa9"));
    CHECK(message.ends_with("\xEF\xBF\xBD"));
  }
}

}  // namespace weir::gateway::upstream
