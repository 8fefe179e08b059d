#include "gateway/dialects/error_shapes.hpp"

#include <catch2/catch.hpp>

#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

namespace {

std::string shaped(const std::string& type, const std::string& message) {
  return R"({"type":"error","error":{"type":")" + type + R"(","message":")" + message + R"("}})";
}

}  // namespace

TEST_CASE("errors of a messages API as those of a chat API") {
  const struct {
    const char* name;
    int status;
    std::string body;
    target_fault what;
    int chat_status;
    const char* message;
  } rows[] = {
      {"a bad request", 400, shaped("invalid_request_error", "x: y"), target_fault::request, 400, "x: y"},
      {"too long", 400, shaped("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
       target_fault::context_length, 400, "prompt is too long: 9 tokens > 8 maximum"},
      {"too large", 413, shaped("request_too_large", "x"), target_fault::request, 413, "x"},
      {"our key", 401, shaped("authentication_error", "key sk-1"), target_fault::credential, 502,
       "the target does not accept the gateway's credential"},
      {"our permission", 403, shaped("permission_error", "x"), target_fault::credential, 502,
       "the target does not accept the gateway's credential"},
      {"our money", 402, shaped("billing_error", "x"), target_fault::quota, 503,
       "the gateway's account at the target has no quota left"},
      {"our rate", 429, shaped("rate_limit_error", "of org-1"), target_fault::rate, 429,
       "the target limits the gateway's rate of requests or tokens"},
      {"no room", 529, shaped("overloaded_error", "x"), target_fault::overloaded, 503, "x"},
      {"no room, told in a stream", 0, shaped("overloaded_error", "x"), target_fault::overloaded, 503, "x"},
      {"a failure", 500, shaped("api_error", "x"), target_fault::broken, 500, "x"},
      {"a failure told in a stream", 0, shaped("api_error", "x"), target_fault::broken, 502, "x"},
      {"a timeout", 0, shaped("timeout_error", "x"), target_fault::broken, 504, "x"},
      {"a model that is not there", 404, shaped("not_found_error", "model: x"), target_fault::broken, 502,
       "model: x"},
      {"a page", 503, "<html>", target_fault::overloaded, 503, "<html>"},
      {"nothing", 502, "", target_fault::broken, 502, "the target failed and gave no reason"},
      {"bytes", 400, "\xff", target_fault::request, 400, "\xEF\xBF\xBD"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto e = read_messages_error(r.status, r.body);
    CHECK(e.what == r.what);
    CHECK(e.status == r.chat_status);
    CHECK(e.message == r.message);
    CHECK(is_object(chat_error_json(e)));
  }
}

TEST_CASE("Moonshot's errors tell which are not to be retried") {
  const struct {
    const char* name;
    int status;
    std::string body;
    target_fault what;
  } rows[] = {
      {"quota", 429, shaped("exceeded_current_quota_error", "x"), target_fault::quota},
      {"quota by its words", 429,
       R"({"error":{"message":"Your account is suspended, check your plan and billing"}})",
       target_fault::quota},
      {"rate", 429, shaped("rate_limit_reached_error", "request quota 3 RPM"), target_fault::rate},
      {"rate without a type", 429, R"({"error":{"message":"slow down"}})", target_fault::rate},
      {"no room", 429, shaped("engine_overloaded_error", "x"), target_fault::overloaded},
      {"content", 400, shaped("content_filter", "x"), target_fault::request},
      {"too long", 400, shaped("invalid_request_error", "Your request exceeded model token limit: 8"),
       target_fault::context_length},
      {"key", 401, shaped("incorrect_api_key_error", "x"), target_fault::credential},
      {"fault", 500, "x", target_fault::broken},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(read_moonshot_error(r.status, r.body).what == r.what);
  }
}

TEST_CASE("an error event of a chat stream") {
  CHECK(chat_error_event({target_fault::overloaded, 503, "a\n\"b\""}) ==
        "data: "
        "{\"error\":{\"message\":\"a\\n\\\"b\\\"\",\"type\":\"server_error\",\"param\":null,\"code\":"
        "\"overloaded\","
        "\"status\":503}}\n\n");
  CHECK(chat_error_json({target_fault::request, 400, "x"}) ==
        R"({"error":{"message":"x","type":"invalid_request_error","param":null,"code":null}})");
}

TEST_CASE("errors for clients of the messages API") {
  const struct {
    error e;
    int status;
    const char* type;
  } rows[] = {
      {{errc::bad_request, "x", {}}, 400, "invalid_request_error"},
      {{errc::invalid_key, "x", {}}, 401, "authentication_error"},
      {{errc::budget_exhausted, "x", {}}, 402, "billing_error"},
      {{errc::forbidden, "x", {}}, 403, "permission_error"},
      {{errc::model_not_found, "x", {}}, 404, "not_found_error"},
      {{errc::body_too_large, "x", {}}, 413, "request_too_large"},
      {{errc::requests_limited, "x", {}}, 429, "rate_limit_error"},
      {{errc::internal, "x", {}}, 500, "api_error"},
      {{errc::upstream_failed, "x", {}}, 502, "api_error"},
      {{errc::deadline_exceeded, "x", {}}, 504, "timeout_error"},
      {{errc::overloaded, "x", {}}, 529, "overloaded_error"},
  };
  for (const auto& r : rows) {
    INFO(r.type);
    const auto out = to_messages_error(r.e, "req_1");
    CHECK(out.status == r.status);
    CHECK(out.body == R"({"type":"error","error":{"type":")" + std::string(r.type) +
                          R"(","message":"x"},"request_id":"req_1"})");
  }
  const auto relayed = to_messages_error(429, R"({"error":{"message":"y","code":"insufficient_quota"}})", "");
  CHECK(relayed.status == 402);
  CHECK(relayed.body ==
        R"({"type":"error","error":{"type":"billing_error","message":"y"},"request_id":null})");
  CHECK(to_messages_error(500, "", "").body ==
        R"({"type":"error","error":{"type":"api_error","message":"the request failed"},"request_id":null})");
}

}  // namespace weir::gateway::dialects
