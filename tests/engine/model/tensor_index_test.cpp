// The index of tensor names at the size of the largest published checkpoint, and its corners.
#include "engine/model/tensor_index.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace {

using weir::engine::model::tensor_index;
using weir::engine::model::tensor_view;

// Kimi K3's 497,220 names are mostly these: six for each of 896 experts in 92 layers.
std::vector<std::string> published_names() {
  std::vector<std::string> names;
  for (int layer = 1; layer < 93; ++layer) {
    for (int expert = 0; expert < 896; ++expert) {
      const std::string prefix = "language_model.model.layers." + std::to_string(layer) +
                                 ".block_sparse_moe.experts." + std::to_string(expert) + ".w";
      for (const char* matrix : {"1", "2", "3"}) {
        names.push_back(prefix + matrix + ".weight_packed");
        names.push_back(prefix + matrix + ".weight_scale");
      }
    }
  }
  for (std::size_t i = 0; names.size() < 497'220; ++i)
    names.push_back("language_model.model.layers.0.self_attention." + std::to_string(i));
  return names;
}

}  // namespace

TEST_CASE("half a million names cost less than 64 MB", "[tensor_index]") {
  const std::vector<std::string> names = published_names();
  REQUIRE(names.size() == 497'220);
  std::size_t name_bytes = 0;
  for (const std::string& name : names) name_bytes += name.size();
  tensor_index index;
  index.reserve(names.size(), name_bytes);
  for (std::size_t i = 0; i < names.size(); ++i) index.add(names[i], static_cast<std::uint16_t>(i % 96));
  REQUIRE_FALSE(index.seal());
  const std::byte data[8]{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const tensor_view view{"U8", {static_cast<std::int64_t>(i % 3), 2}, std::span(data).first(i % 3 * 2)};
    index.put(names[i], static_cast<std::uint16_t>(i % 96), view, i);
  }
  CHECK_FALSE(index.first_unplaced());
  CHECK(index.size() == names.size());
  INFO(index.memory_bytes() << " bytes, " << name_bytes << " of them names");
  CHECK(index.memory_bytes() >= name_bytes);
  CHECK(index.memory_bytes() < 64'000'000);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = index.find(names[i]);
    const bool right = found && found->offset == i && found->shard == i % 96 && found->bytes == i % 3 * 2 &&
                       found->dtype == "U8" && found->shape[0] == static_cast<std::int64_t>(i % 3);
    wrong += right ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK_FALSE(index.find("language_model.model.layers.1.block_sparse_moe.experts.896.w1.weight_packed"));
}

TEST_CASE("names are found alone, in their own shard", "[tensor_index]") {
  const std::byte data[4]{};
  const tensor_view view{"F32", {1}, data};
  tensor_index index;
  CHECK_FALSE(index.find("a"));
  for (const char* name : {"b", "", "ab", "a", "abc"}) index.add(name, 1);
  REQUIRE_FALSE(index.seal());
  index.put("ab", 0, view, 7);  // another shard's copy
  CHECK_FALSE(index.find("ab"));
  index.put("zz", 1, view, 7);  // listed nowhere
  CHECK_FALSE(index.find("zz"));
  CHECK(index.first_unplaced() == "");
  for (const char* name : {"", "a", "ab", "abc", "b"}) index.put(name, 1, view, 9);
  CHECK(index.find("ab")->offset == 9);
  CHECK(index.find("")->bytes == 4);
  CHECK_FALSE(index.first_unplaced());
}

TEST_CASE("a name that was added twice is told", "[tensor_index]") {
  tensor_index index;
  for (const char* name : {"b", "ab", "a", "ab"}) index.add(name, 0);
  CHECK(index.seal() == "ab");
}
