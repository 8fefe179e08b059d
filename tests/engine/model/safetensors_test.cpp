// Hostile and damaged weight files: every one is an error that names the fault, never a wild read.
#include "engine/model/safetensors.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "engine/model/checkpoint.hpp"
#include "engine/model/weights.hpp"
#include "tests/support/random_checkpoint.hpp"

namespace {

using namespace weir::engine;
namespace tests = weir::tests;

std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xFFU);
  return length + header + std::string(data_bytes, '\1');
}

result<model::tensor_map> parse(const std::string& file) {
  return model::parse_safetensors(std::as_bytes(std::span(file)));
}

constexpr const char* k_good = R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]})";

}  // namespace

TEST_CASE("a well-formed file is read", "[safetensors]") {
  const std::string header = std::string("{\"__metadata__\":{\"format\":\"pt\"},") + k_good +
                             R"(,"empty":{"dtype":"U8","shape":[0,7],"data_offsets":[8,8]})"
                             R"(,"scalar":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}  )";
  const std::string file = file_of(header, 10);
  const auto tensors = parse(file);
  INFO((tensors ? std::string() : tensors.error().detail));
  REQUIRE(tensors);
  CHECK(tensors->size() == 3);
  CHECK(tensors->at("a").shape == std::vector<std::int64_t>{2, 1});
  CHECK(tensors->at("a").data.size() == 8);
  CHECK(tensors->at("scalar").data.data() ==
        reinterpret_cast<const std::byte*>(file.data()) + file.size() - 2);
}

TEST_CASE("a hostile header is refused", "[safetensors]") {
  const std::string good = k_good;
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"b":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  struct row {
    const char* name;
    std::string file;
  };
  const row rows[] = {
      {"empty file", ""},
      {"seven bytes", std::string(7, '\0')},
      {"header length beyond the file", std::string("\x10\0\0\0\0\0\0\0{}", 10)},
      {"header length near 2^64", std::string(8, '\xff') + "{}"},
      {"header length over the limit", std::string("\0\0\0\0\1\0\0\0{}", 10)},
      {"empty header", file_of("", 8)},
      {"no object", file_of("[]", 8)},
      {"cut JSON", file_of("{" + good, 8)},
      {"not UTF-8", file_of("{\"\xff\":1}", 8)},
      {"entry is no object", file_of(R"({"a":[0,8]})", 8)},
      {"listed twice", file_of("{" + good + "," + good + "}", 8)},
      {"overlap", file_of("{" + good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8)},
      {"no dtype", file_of(R"({"b":{"shape":[1],"data_offsets":[0,4]}})", 8)},
      {"unknown dtype", file_of(tensor("\"F33\"", "[1]", "[0,4]"), 8)},
      {"dtype is a number", file_of(tensor("1", "[1]", "[0,4]"), 8)},
      {"shape is a number", file_of(tensor("\"F32\"", "1", "[0,4]"), 8)},
      {"negative dimension", file_of(tensor("\"F32\"", "[-1]", "[0,4]"), 8)},
      {"fractional dimension", file_of(tensor("\"F32\"", "[1.0]", "[0,4]"), 8)},
      {"product overflows to the range",
       file_of(tensor("\"F32\"", "[4294967296,4294967296,4294967297]", "[0,4]"), 8)},
      {"dimension of 2^63", file_of(tensor("\"U8\"", "[9223372036854775808]", "[0,4]"), 8)},
      {"nine dimensions", file_of(tensor("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 8)},
      {"one offset", file_of(tensor("\"F32\"", "[1]", "[0]"), 8)},
      {"three offsets", file_of(tensor("\"F32\"", "[1]", "[0,4,8]"), 8)},
      {"negative offset", file_of(tensor("\"F32\"", "[1]", "[-4,0]"), 8)},
      {"reversed offsets", file_of(tensor("\"F32\"", "[1]", "[4,0]"), 8)},
      {"past the end", file_of(tensor("\"F32\"", "[1]", "[8,12]"), 8)},
      {"end near 2^64", file_of(tensor("\"F32\"", "[1]", "[18446744073709551612,18446744073709551615]"), 8)},
      {"range larger than the shape", file_of(tensor("\"F32\"", "[1]", "[0,8]"), 8)},
      {"name of two thousand bytes",
       file_of("{\"" + std::string(2000, 'n') + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8)},
      {"range smaller than the shape", file_of(tensor("\"F32\"", "[3]", "[0,8]"), 8)},
  };
  for (const row& r : rows) {
    INFO(r.name);
    const auto tensors = parse(r.file);
    REQUIRE_FALSE(tensors);
    CHECK(tensors.error().code == errc::bad_model);
  }
}

TEST_CASE("every truncation of a checkpoint is refused or complete", "[safetensors]") {
  const auto model = tests::make_checkpoint({}, 1);
  const std::string file = tests::safetensors_bytes({{"x", model.tensors.at("model.norm.weight")}});
  for (std::size_t size = 0; size < file.size(); ++size) REQUIRE_FALSE(parse(file.substr(0, size)));
  CHECK(parse(file));
}

TEST_CASE("what is no regular file is refused at once", "[checkpoint]") {
  const tests::temporary_dir dir;
  const auto pipe = dir.path() / "config.json";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const auto& path : {pipe, dir.path()}) {
    const auto read = model::read_file(path, 100);
    REQUIRE_FALSE(read);
    CHECK(read.error().detail == path.string() + " is not a regular file");
  }
}

TEST_CASE("an index may only name plain files that hold the tensor once", "[checkpoint]") {
  const auto model = tests::make_checkpoint({}, 1);
  struct row {
    const char* name;
    std::string index;
    errc code;
  };
  const row rows[] = {
      {"parent folder", R"({"weight_map":{"x":"../model.safetensors"}})", errc::bad_model},
      {"absolute", R"({"weight_map":{"x":"/etc/passwd"}})", errc::bad_model},
      {"absolute with suffix", R"({"weight_map":{"x":"/tmp/m.safetensors"}})", errc::bad_model},
      {"backslash", R"({"weight_map":{"x":"a\\m.safetensors"}})", errc::bad_model},
      {"NUL inside", R"({"weight_map":{"x":"a\u0000.safetensors"}})", errc::bad_model},
      {"hidden", R"({"weight_map":{"x":".safetensors"}})", errc::bad_model},
      {"other suffix", R"({"weight_map":{"x":"config.json"}})", errc::bad_model},
      {"a number", R"({"weight_map":{"x":7}})", errc::bad_model},
      {"no map", R"({"metadata":{}})", errc::bad_model},
      {"no JSON", "weights", errc::bad_model},
      {"absent shard", R"({"weight_map":{"x":"absent.safetensors"}})", errc::io},
      {"not in the shard", R"({"weight_map":{"y":"part.safetensors"}})", errc::bad_model},
      {"twice", R"({"weight_map":{"x":"part.safetensors","x":"part.safetensors"}})", errc::bad_model},
      {"twice in different shards", R"({"weight_map":{"x":"part.safetensors","x":"part2.safetensors"}})",
       errc::bad_model},
  };
  for (const row& r : rows) {
    INFO(r.name);
    const tests::temporary_dir dir;
    const std::string part = tests::safetensors_bytes({{"x", model.tensors.at("model.norm.weight")}});
    tests::write_file(dir.path() / "part.safetensors", part);
    tests::write_file(dir.path() / "part2.safetensors", part);
    tests::write_file(dir.path() / "model.safetensors.index.json", r.index);
    const auto opened = model::checkpoint::open(dir.path());
    REQUIRE_FALSE(opened);
    CHECK(opened.error().code == r.code);
  }
  const tests::temporary_dir dir;
  CHECK(model::checkpoint::open(dir.path()).error().code == errc::io);
  std::filesystem::create_directory(dir.path() / "model.safetensors");
  CHECK(model::checkpoint::open(dir.path()).error().code == errc::io);
}

namespace {

result<model::model_weights> bind(const tests::random_checkpoint& model) {
  const tests::temporary_dir dir;
  tests::write_checkpoint(model, dir.path());
  auto files = model::checkpoint::open(dir.path());
  REQUIRE(files);
  return model::bind_weights(*model::load_model_config(dir.path()),
                             std::make_shared<model::checkpoint>(std::move(*files)));
}

std::int64_t parameters_of(const tests::random_checkpoint& model) {
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : model.tensors) {
    const std::int64_t per_value = name.ends_with("_packed") ? 2 : name.ends_with("_scale") ? 0 : 1;
    parameters += per_value * static_cast<std::int64_t>(tensor.values.size());
  }
  return parameters;
}

}  // namespace

TEST_CASE("tensors are bound by name, shape and dtype", "[weights]") {
  auto k3 = tests::k3_spec();
  k3.is_kda = {true, false};  // a dense and an expert layer, with a block each
  k3.residual_block = 1;
  const auto spec = GENERATE_COPY(tests::checkpoint_spec{}, k3);
  const auto whole = tests::make_checkpoint(spec, 3);
  const auto bound = bind(whole);
  INFO((bound ? std::string() : bound.error().detail));
  REQUIRE(bound);
  CHECK(bound->parameter_count == parameters_of(whole));

  for (const auto& [name, tensor] : whole.tensors) {
    INFO(name);
    auto missing = whole;
    missing.tensors.erase(name);
    const auto without = bind(missing);
    REQUIRE_FALSE(without);
    CHECK(without.error().code == errc::bad_model);
    CHECK(without.error().detail.find("\"" + name + "\" is missing") != std::string::npos);

    auto misshaped = whole;
    misshaped.tensors[name].shape = {static_cast<int>(tensor.values.size()), 1, 1};
    const auto wrong = bind(misshaped);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code == errc::bad_model);
    CHECK(wrong.error().detail.find(name) != std::string::npos);
    CHECK(wrong.error().detail.find(std::to_string(tensor.values.size()) + ", 1, 1]") != std::string::npos);
  }

  auto odd = whole;
  odd.tensors["a_leading_unknown_tensor"] = {
      {1}, {0.5}, "BF16"};  // also moves every F32 tensor off its alignment
  odd.tensors["vision_tower.encoder.blocks.0.norm0.weight"] = {{1}, {0.5}, "BF16"};
  CHECK(bind(odd));
}

TEST_CASE("a tensor of another dtype is refused by both names", "[weights]") {
  struct row {
    const char* tensor;
    const char* dtype;
  };
  const row rows[] = {
      {"language_model.model.layers.0.self_attn.dt_bias", "I32"},
      {"language_model.model.layers.1.block_sparse_moe.experts.2.w3.weight_packed", "I8"},
      {"language_model.model.layers.1.block_sparse_moe.experts.2.w3.weight_scale", "F8_E8M0"},
      {"language_model.model.layers.1.block_sparse_moe.routed_expert_down_proj.weight", "I16"},
  };
  const auto whole = tests::make_checkpoint(tests::k3_spec(), 3);
  for (const row& r : rows) {
    INFO(r.tensor);
    auto other = whole;
    other.tensors.at(r.tensor).dtype = r.dtype;
    const auto refused = bind(other);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::unsupported);
    CHECK(refused.error().detail.find(r.tensor) != std::string::npos);
    CHECK(refused.error().detail.find(r.dtype) != std::string::npos);
  }
}

TEST_CASE("experts that are not packed as the configuration says are refused", "[weights]") {
  auto spec = tests::k3_spec();
  const auto packed = tests::make_checkpoint(spec, 3);
  spec.packed = false;
  auto plain = tests::make_checkpoint(spec, 3);
  CHECK(bind(plain));
  auto mixed = plain;
  auto& one = mixed.tensors.at("language_model.model.layers.1.block_sparse_moe.experts.1.w3.weight");
  one.dtype = "F32";
  const auto uneven = bind(mixed);
  REQUIRE_FALSE(uneven);
  CHECK(uneven.error().code == errc::unsupported);
  CHECK(uneven.error().detail.find("must be of one dtype") != std::string::npos);
  plain.spec.packed = true;
  const auto unpacked = bind(plain);
  REQUIRE_FALSE(unpacked);
  CHECK(unpacked.error().detail.find("experts.0.w1.weight_packed\" is missing") != std::string::npos);
  auto undeclared = packed;
  undeclared.spec.packed = false;
  const auto refused = bind(undeclared);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail.find("experts.0.w1.weight\" is missing") != std::string::npos);
}
