#include "gateway/http/inflater.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <random>
#include <string>

namespace weir::gateway::http {
namespace {

constexpr std::size_t k_plenty = std::size_t{1} << 20;
constexpr int k_gzip = 15 + 16;  // zlib's codes of the two formats
constexpr int k_zlib = 15;

std::string compress(const std::string& plain, int window_bits) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, static_cast<uLong>(plain.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string sample_text() {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "data: {\"choices\":[{\"index\":" + std::to_string(i) + "}]}\n\n";
  return text;
}

struct outcome {
  bool ok = true;
  bool finished = false;
  std::string out;
  friend bool operator==(const outcome&, const outcome&) = default;
};

outcome inflate_in_two(std::string_view packed, std::size_t cut, std::size_t bytes_max) {
  inflater coding;
  outcome got;
  got.ok = coding.inflate(packed.substr(0, cut), got.out, bytes_max) &&
           coding.inflate(packed.substr(cut), got.out, bytes_max);
  if (!got.ok) got.out.clear();
  got.finished = coding.finished();
  return got;
}

}  // namespace

TEST_CASE("both codings come back whole at every cut") {
  const std::string plain = sample_text();
  for (const int format : {k_gzip, k_zlib}) {
    const std::string packed = compress(plain, format);
    for (std::size_t cut = 0; cut <= packed.size(); ++cut) {
      INFO("format " << format << " cut " << cut);
      CHECK(inflate_in_two(packed, cut, k_plenty) == outcome{true, true, plain});
    }
    inflater coding;
    std::string out;
    for (const char& c : packed) {
      CHECK_FALSE(coding.finished());
      REQUIRE(coding.inflate({&c, 1}, out, k_plenty));
    }
    CHECK(coding.finished());
    CHECK(out == plain);
  }
}

TEST_CASE("a body of nothing") {
  const std::string packed = compress("", k_gzip);
  CHECK(inflate_in_two(packed, 3, 0) == outcome{true, true, ""});
  inflater coding;
  std::string out;
  CHECK(coding.inflate("", out, k_plenty));
  CHECK_FALSE(coding.finished());
}

TEST_CASE("a truncated body is not finished") {
  const std::string plain = sample_text();
  const std::string packed = compress(plain, k_gzip);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    inflater coding;
    std::string out;
    INFO(size);
    CHECK(coding.inflate(std::string_view(packed).substr(0, size), out, k_plenty));
    CHECK_FALSE(coding.finished());
    CHECK(plain.starts_with(out));
  }
}

TEST_CASE("garbage is refused for good, however it is cut") {
  const std::string packed = compress(sample_text(), k_gzip);
  std::string checksum = packed;
  checksum[packed.size() - 6] = static_cast<char>(checksum[packed.size() - 6] ^ 1);
  const std::string rows[] = {packed + "x", packed + packed, checksum, "{\"choices\":[]}",
                              "\x1f\x8b\x07 wrong method"};
  for (const auto& bytes : rows) {
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      INFO(cut);
      CHECK_FALSE(inflate_in_two(bytes, cut, k_plenty).ok);
    }
  }
  inflater coding;
  std::string out;
  CHECK_FALSE(coding.inflate("not compressed", out, k_plenty));
  CHECK_FALSE(coding.inflate(packed, out, k_plenty));
  CHECK_FALSE(coding.inflate("", out, k_plenty));
}

TEST_CASE("the bound is met to the byte, however it is cut") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{16} << 10, (std::size_t{16} << 10) + 1}) {
    const std::string plain(bytes, 'a');
    const std::string packed = compress(plain, k_zlib);
    for (std::size_t cut = 0; cut <= packed.size(); ++cut) {
      INFO(bytes << " cut at " << cut);
      CHECK(inflate_in_two(packed, cut, bytes) == outcome{true, true, plain});
      CHECK_FALSE(inflate_in_two(packed, cut, bytes - 1).ok);
    }
  }
}

TEST_CASE("a bomb stops near the bound") {
  const std::string packed = compress(std::string(std::size_t{64} << 20, '\0'), k_gzip);
  REQUIRE(packed.size() < (std::size_t{1} << 20));
  inflater coding;
  std::string out;
  CHECK_FALSE(coding.inflate(packed, out, k_plenty));
  CHECK(out.size() <= k_plenty + 1);
  CHECK_FALSE(coding.inflate("", out, k_plenty));
}

TEST_CASE("incompressible bytes in random pieces") {
  const unsigned seed = 20261129;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::string plain(200'000, '\0');
  for (auto& c : plain) c = static_cast<char>(random());
  const std::string packed = compress(plain, k_gzip);
  inflater coding;
  std::string out;
  for (std::size_t at = 0; at < packed.size();) {
    const std::size_t bytes = std::min<std::size_t>(packed.size() - at, random() % 9000);
    REQUIRE(coding.inflate(std::string_view(packed).substr(at, bytes), out, k_plenty));
    at += bytes;
  }
  CHECK(coding.finished());
  CHECK(out == plain);
}

}  // namespace weir::gateway::http
