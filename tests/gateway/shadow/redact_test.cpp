#include "gateway/shadow/redact.hpp"

#include <catch2/catch.hpp>

#include "gateway/api/generation_call.hpp"

namespace weir::gateway::shadow {

namespace {

std::vector<field_path> paths(std::initializer_list<const char*> texts) {
  std::vector<field_path> out;
  for (const auto* text : texts) out.push_back(*parse_path(text));
  return out;
}

}  // namespace

TEST_CASE("paths of fields") {
  struct row {
    const char* text;
    const char* fault;  // null: none
    field_path steps;
  };
  const row rows[] = {
      {"user", nullptr, {{"user"}}},
      {"metadata.session", nullptr, {{"metadata"}, {"session"}}},
      {"messages[].name", nullptr, {{"messages"}, {}, {"name"}}},
      {"a[][].b", nullptr, {{"a"}, {}, {}, {"b"}}},
      {"model.x", nullptr, {{"model"}, {"x"}}},
      {"", "is not a field's path", {}},
      {".", "is not a field's path", {}},
      {"a.", "is not a field's path", {}},
      {"[].a", "is not a field's path", {}},
      {"a[0].b", "is not a field's path", {}},
      {"a[", "is not a field's path", {}},
      {"\"a\"", "is not a field's path", {}},
      {"messages[]", "names a list's elements", {}},
      {"messages", "cannot do without", {}},
      {"model", "cannot do without", {}},
      {"stream", "cannot do without", {}},
      {"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q", "too deep", {}},
  };
  for (const auto& r : rows) {
    INFO(r.text);
    const auto got = parse_path(r.text);
    CHECK(got.has_value() == (r.fault == nullptr));
    if (got) CHECK(*got == r.steps);
    if (!got && r.fault != nullptr) CHECK(got.error().find(r.fault) != std::string::npos);
  }
  CHECK_FALSE(parse_path(std::string(k_path_bytes_max + 1, 'a')));
}

TEST_CASE("named fields go, every other byte stays") {
  struct row {
    const char* name;
    const char* body;
    std::vector<field_path> cut;
    const char* left;
  };
  const row rows[] = {
      {"no path", R"({ "user": 1 })", {}, R"({ "user": 1 })"},
      {"first", R"({"user":"secret","model":"m"})", paths({"user"}), R"({"model":"m"})"},
      {"last", R"({"model":"m", "user":"secret"})", paths({"user"}), R"({"model":"m"})"},
      {"only", R"({"user":"secret"})", paths({"user"}), R"({})"},
      {"in the middle", R"({"a":1e2,"user":{"x":["secret"]},"b":1.0})", paths({"user"}),
       R"({"a":1e2,"b":1.0})"},
      {"not there", R"({"a":"user"})", paths({"user"}), R"({"a":"user"})"},
      {"key with an escape", R"({"us\u0065r":"secret","a":1})", paths({"user"}), R"({"a":1})"},
      {"deeper of the same name stays", R"({"a":{"user":1}})", paths({"user"}), R"({"a":{"user":1}})"},
      {"within an object", R"({"metadata":{"ip":"secret","lang":"en"}})", paths({"metadata.ip"}),
       R"({"metadata":{"lang":"en"}})"},
      {"of every element",
       R"({"messages":[{"name":"secret","content":"a"},{"content":"b","name":"secret"}]})",
       paths({"messages[].name"}), R"({"messages":[{"content":"a"},{"content":"b"}]})"},
      {"of elements of elements",
       R"({"messages":[{"content":[{"image":"secret","type":"x"}]},{"content":"t"}]})",
       paths({"messages[].content[].image"}), R"({"messages":[{"content":[{"type":"x"}]},{"content":"t"}]})"},
      {"elements that are no objects", R"({"messages":["name",3,null,["name"]]})", paths({"messages[].name"}),
       R"({"messages":["name",3,null,["name"]]})"},
      {"an object where a list is named", R"({"messages":{"name":1}})", paths({"messages[].name"}),
       R"({"messages":{"name":1}})"},
      {"a whole and a part of it", R"({"a":{"b":"secret","c":"secret"},"d":1})", paths({"a.b", "a"}),
       R"({"d":1})"},
      {"several", R"({"user":"secret","a":1,"metadata":{"k":"secret"},"b":2,"x":"secret"})",
       paths({"x", "user", "metadata"}), R"({"a":1,"b":2})"},
      {"a text that looks like a field", R"({"a":"\"user\":\"kept\"","user":"secret"})", paths({"user"}),
       R"({"a":"\"user\":\"kept\""})"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto left = redact(r.body, r.cut);
    CHECK(left == r.left);
    CHECK(left.find("secret") == std::string::npos);
  }
}

TEST_CASE("a redacted request is still a request") {
  const std::string body = R"({"model":"kimi","messages":[{"role":"user","name":"bob","content":"hi"}],)"
                           R"("user":"bob","stream":true})";
  REQUIRE(api::read_generation_call(api::generation_kind::chat, body));
  const auto call =
      api::read_generation_call(api::generation_kind::chat, redact(body, paths({"user", "messages[].name"})));
  REQUIRE(call);
  CHECK(call->stream);
  CHECK(call->body.find("bob") == std::string::npos);
}

}  // namespace weir::gateway::shadow
