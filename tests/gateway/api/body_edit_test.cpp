#include "gateway/api/body_edit.hpp"

#include <catch2/catch.hpp>

#include "gateway/api/generation_call.hpp"

namespace weir::gateway::api {

TEST_CASE("edits change the values they name and no other byte") {
  struct row {
    const char* name;
    std::string body;
    const char* model;
    bool ask_usage;
    const char* expected;  // null: nothing to change
  };
  const row rows[] = {
      {"nothing asked", R"({"model":"a"})", "", false, nullptr},
      {"the same name", R"({"model":"a"})", "a", false, nullptr},
      {"a name", R"({"model":"a"})", "b", false, R"({"model":"b"})"},
      {"longer and with spaces", R"( { "x" : 1 , "model" : "a" , "y":[ ] } )", "org/b-1", false,
       R"( { "x" : 1 , "model" : "org/b-1" , "y":[ ] } )"},
      {"a name to escape", R"({"model":"a"})", "q\"\\\n", false, R"({"model":"q\"\\\n"})"},
      {"an escaped name", R"({"model":"\"\\","x":1})", "b", false, R"({"model":"b","x":1})"},
      {"an escaped key", R"({"\u006dodel":"a"})", "b", false, R"({"\u006dodel":"b"})"},
      {"a key with a quote before", R"({"mo\"del":"x","\\":"\\","model":"a"})", "b", false,
       R"({"mo\"del":"x","\\":"\\","model":"b"})"},
      {"only at the top", R"({"x":{"model":"a"},"y":[{"model":"a"}],"z":"\"model\":\"a\"","model":"a"})", "b",
       false, R"({"x":{"model":"a"},"y":[{"model":"a"}],"z":"\"model\":\"a\"","model":"b"})"},
      {"a value that is the key", R"({"x":"model","model":"model"})", "b", false,
       R"({"x":"model","model":"b"})"},
      {"brackets in text", R"({"x":["}]{[",{"y":"]"}],"model":"a"})", "b", false,
       R"({"x":["}]{[",{"y":"]"}],"model":"b"})"},
      {"numbers and words before", R"({"a":-1.5e+3,"b":true,"c":null,"d":99999999999999999999,"model":"a"})",
       "b", false, R"({"a":-1.5e+3,"b":true,"c":null,"d":99999999999999999999,"model":"b"})"},
      {"no model", R"({"x":1})", "b", false, nullptr},
      {"usage, no options", R"({"model":"a"})", "", true,
       R"({"stream_options":{"include_usage":true},"model":"a"})"},
      {"usage, empty object", "{ }", "", true, R"({"stream_options":{"include_usage":true} })"},
      {"usage, options null", R"({"stream_options": null})", "", true,
       R"({"stream_options": {"include_usage":true}})"},
      {"usage, empty options", R"({"stream_options":{ }})", "", true,
       R"({"stream_options":{"include_usage":true }})"},
      {"usage, other options", R"({"stream_options":{"x":{"include_usage":false}}})", "", true,
       R"({"stream_options":{"include_usage":true,"x":{"include_usage":false}}})"},
      {"usage off", R"({"stream_options":{"x":1,"include_usage" : false , "y":2}})", "", true,
       R"({"stream_options":{"x":1,"include_usage" : true , "y":2}})"},
      {"usage null", R"({"stream_options":{"include_usage":null}})", "", true,
       R"({"stream_options":{"include_usage":true}})"},
      {"usage on", R"({"stream_options":{"include_usage":true}})", "", true, nullptr},
      {"usage on, escaped", R"({"stream\u005foptions":{"include\u005Fusage":true}})", "", true, nullptr},
      {"both, model first", R"({"model":"a","stream_options":{"include_usage":false}})", "bb", true,
       R"({"model":"bb","stream_options":{"include_usage":true}})"},
      {"both, model last", R"({"stream_options":{},"model":"a"})", "bb", true,
       R"({"stream_options":{"include_usage":true},"model":"bb"})"},
      {"both, options new", R"({"model":"a"})", "bb", true,
       R"({"stream_options":{"include_usage":true},"model":"bb"})"},
      {"one of both", R"({"stream_options":{"include_usage":true},"model":"a"})", "b", true,
       R"({"stream_options":{"include_usage":true},"model":"b"})"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto edited = edit_body(r.body, r.model, r.ask_usage);
    CHECK(edited.has_value() == (r.expected != nullptr));
    if (edited && r.expected != nullptr) CHECK(*edited == r.expected);
    if (edited) CHECK_FALSE(edit_body(*edited, r.model, r.ask_usage).has_value());
  }
}

TEST_CASE("an edited call says what was asked") {
  const auto before = read_generation_call(
      generation_kind::chat,
      R"({"seed":1e999,"model":"a","stream":true,"stream_options":{"include_usage":false}})");
  REQUIRE(before.has_value());
  CHECK_FALSE(before->include_usage);
  const auto body = edit_body(before->body, "b", true);
  REQUIRE(body.has_value());
  const auto after = read_generation_call(generation_kind::chat, *body);
  REQUIRE(after.has_value());
  CHECK(after->model == "b");
  CHECK(after->stream);
  CHECK(after->include_usage);
}

}  // namespace weir::gateway::api
