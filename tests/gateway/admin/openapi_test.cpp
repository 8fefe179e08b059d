#include "gateway/admin/openapi.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "gateway/api/endpoints.hpp"
#include "gateway/api/json.hpp"

namespace weir::gateway {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return out;
}

}  // namespace

TEST_CASE("the document describes every route of the admin listener and no more") {
  const auto document = api::json_document::parse(std::string(admin::openapi_json()));
  REQUIRE(document);
  std::set<std::string> described;
  std::set<std::string> described_open;
  for (const auto path : document->root()["paths"].get_object()) {
    for (const auto operation : path.value.get_object()) {
      if (operation.key == "parameters") continue;
      const auto name = std::string(operation.key) + ' ' + std::string(path.key);
      described.insert(name);
      simdjson::dom::array security;
      if (!operation.value["security"].get(security) && security.size() == 0) described_open.insert(name);
    }
  }
  std::set<std::string> served;
  std::set<std::string> served_open;
  for (const auto& e : api::admin_endpoints()) {
    const auto name = lower(boost::beast::http::to_string(e.method)) + ' ' + std::string(e.path);
    CHECK(served.insert(name).second);
    if (e.needs == api::access::open) served_open.insert(name);
    CHECK(e.needs != api::access::key);
  }
  CHECK(described == served);
  CHECK(described_open == served_open);
}

TEST_CASE("a pattern's part is one segment, or all that follows") {
  using api::match_path;
  CHECK(match_path("/a", "/a") == "");
  CHECK_FALSE(match_path("/a", "/a/"));
  CHECK_FALSE(match_path("/a", "/A"));
  CHECK(match_path("/k/{id}", "/k/x") == "x");
  CHECK_FALSE(match_path("/k/{id}", "/k/"));
  CHECK_FALSE(match_path("/k/{id}", "/k/x/y"));
  CHECK(match_path("/k/{id}/r", "/k/x/r") == "x");
  CHECK_FALSE(match_path("/k/{id}/r", "/k/r"));
  CHECK_FALSE(match_path("/k/{id}/r", "/k//r"));
  CHECK_FALSE(match_path("/k/{id}/r", "/k/x/y/r"));
  CHECK(match_path("/m/{model...}", "/m/a/b") == "a/b");
  CHECK_FALSE(match_path("/m/{model...}", "/m/"));
}

}  // namespace weir::gateway
