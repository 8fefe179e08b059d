#include "gateway/api/json_text.hpp"

#include <catch2/catch.hpp>

namespace weir::gateway::api {

TEST_CASE("members and elements are found by their places") {
  const std::string text = R"( { "a" : [ 1 , "]", {"x":[2]}, [ ] ] , "b\"":null,"c":{}} )";
  const auto members = members_of(text, 0);
  REQUIRE(members.size() == 3);
  CHECK(members[0].key.in(text) == R"("a")");
  CHECK(members[1].key.in(text) == R"("b\"")");
  CHECK(members[1].value.in(text) == "null");
  CHECK(members[2].value.in(text) == "{}");
  const auto elements = elements_of(text, members[0].value.begin);
  REQUIRE(elements.size() == 4);
  CHECK(elements[1].in(text) == R"("]")");
  CHECK(elements[2].in(text) == R"({"x":[2]})");
  CHECK(elements[3].in(text) == "[ ]");
  CHECK(find_member(text, 0, "b\"")->value.in(text) == "null");
  CHECK_FALSE(find_member(text, 0, "x").has_value());
  CHECK(members_of("[1]", 0).empty());
  CHECK(members_of("{ }", 0).empty());
  CHECK(elements_of("[ ]", 0).empty());
  CHECK(elements_of("7", 0).empty());
  CHECK_FALSE(find_member("7", 0, "a").has_value());
}

TEST_CASE("removed members take their commas with them") {
  const std::string text = R"({"a":1, "b":2 ,"c":3})";
  const struct {
    std::vector<bool> marked;
    const char* expected;
  } rows[] = {
      {{false, false, false}, R"({"a":1, "b":2 ,"c":3})"},
      {{true, false, false}, R"({"b":2 ,"c":3})"},
      {{false, true, false}, R"({"a":1, "c":3})"},
      {{false, false, true}, R"({"a":1, "b":2})"},
      {{true, true, false}, R"({"c":3})"},
      {{false, true, true}, R"({"a":1})"},
      {{true, false, true}, R"({"b":2})"},
      {{true, true, true}, "{}"},
  };
  for (const auto& r : rows) {
    INFO(r.expected);
    text_edits edits;
    edits.remove(text, 0, members_of(text, 0), r.marked);
    CHECK(edits.apply(text) == r.expected);
  }
}

}  // namespace weir::gateway::api
