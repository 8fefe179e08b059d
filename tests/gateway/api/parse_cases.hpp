// Tables of request bodies: one field changed in a good body, and the field that the error must name. Shared
// by the tests of both request parsers.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "gateway/errc.hpp"

namespace weir::gateway::api::testing {

struct field_case {
  std::string fields;  // behind the good body's own, with a leading comma
  const char* param;   // null: accepted
};

// Of the fields that both endpoints share.
inline std::vector<field_case> shared_cases() {
  const std::string many_stops = [] {
    std::string out = ",\"stop\":[\"a\"";
    for (int i = 0; i < 16; ++i) out += ",\"a\"";
    return out + "]";
  }();
  std::string many_hints = "[1";
  for (int i = 0; i < 64; ++i) many_hints += ",1";
  many_hints += "]";
  return {
      {R"(,"unknown":{"x":[1]},"store":true)", nullptr},
      {R"(,"stream":null,"n":null,"stop":null,"seed":null,"logit_bias":null)", nullptr},
      {R"(,"stream":1)", "stream"},
      {R"(,"stream_options":[])", "stream_options"},
      {R"(,"stream_options":{"include_usage":"yes"})", "stream_options.include_usage"},
      {R"(,"n":0)", "n"},
      {R"(,"n":16)", nullptr},
      {R"(,"n":17)", "n"},
      {R"(,"n":1.5)", "n"},
      {R"(,"max_tokens":0)", "max_tokens"},
      {R"(,"max_tokens":1073741824)", nullptr},
      {R"(,"max_tokens":1073741825)", "max_tokens"},
      {R"(,"max_completion_tokens":-1)", "max_completion_tokens"},
      {R"(,"weir_checkpoint_at":[1,64,2147483647])", nullptr},
      {R"(,"weir_checkpoint_at":null)", nullptr},
      {R"(,"weir_checkpoint_at":64)", "weir_checkpoint_at"},
      {R"(,"weir_checkpoint_at":[64,0])", "weir_checkpoint_at"},
      {R"(,"weir_checkpoint_at":[2147483648])", "weir_checkpoint_at"},
      {R"(,"weir_checkpoint_at":["64"])", "weir_checkpoint_at"},
      {R"(,"weir_checkpoint_at":)" + many_hints, "weir_checkpoint_at"},
      {R"(,"temperature":2)", nullptr},
      {R"(,"temperature":2.01)", "temperature"},
      {R"(,"temperature":-0.1)", "temperature"},
      {R"(,"temperature":"hot")", "temperature"},
      {R"(,"top_p":1.1)", "top_p"},
      {R"(,"top_k":-2)", "top_k"},
      {R"(,"top_k":2147483648)", "top_k"},
      {R"(,"min_p":-1)", "min_p"},
      {R"(,"presence_penalty":2.5)", "presence_penalty"},
      {R"(,"frequency_penalty":-2.5)", "frequency_penalty"},
      {R"(,"seed":-9223372036854775808)", nullptr},
      {R"(,"seed":9223372036854775808)", "seed"},
      {R"(,"seed":"1")", "seed"},
      {R"(,"logit_bias":[])", "logit_bias"},
      {R"(,"logit_bias":{"0":100,"2147483647":-100})", nullptr},
      {R"(,"logit_bias":{"2147483648":0})", "logit_bias"},
      {R"(,"logit_bias":{"-1":0})", "logit_bias"},
      {R"(,"logit_bias":{"x":0})", "logit_bias"},
      {R"(,"logit_bias":{"":0})", "logit_bias"},
      {R"(,"logit_bias":{"1":100.5})", "logit_bias"},
      {R"(,"stop":"")", "stop"},
      {R"(,"stop":[])", nullptr},
      {R"(,"stop":["a",1])", "stop"},
      {R"(,"stop":{})", "stop"},
      {",\"stop\":\"" + std::string(1024, 's') + "\"", nullptr},
      {",\"stop\":\"" + std::string(1025, 's') + "\"", "stop"},
      {many_stops, "stop"},
  };
}

// `good` ends in its last field, without the closing brace.
template <class Parse>
void check_fields(const std::string& good, const std::vector<field_case>& cases, Parse parse) {
  for (const auto& c : cases) {
    INFO(c.fields.substr(0, 200));
    const auto parsed = parse(good + c.fields + "}");
    if (c.param == nullptr) {
      INFO((parsed ? "" : parsed.error().message));
      CHECK(parsed.has_value());
      continue;
    }
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == errc::bad_request);
    CHECK(parsed.error().param == c.param);
    CHECK(parsed.error().message.find("'" + std::string(c.param) + "' ") == 0);
  }
}

}  // namespace weir::gateway::api::testing
