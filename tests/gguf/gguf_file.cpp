#include "tests/gguf/gguf_file.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <numeric>

namespace weir::tests::gguf {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t k_version = 3;
constexpr std::uint64_t k_alignment = 32;  // of tensors; the format's default

enum class value_type : std::uint32_t { u32 = 4, i32 = 5, f32 = 6, string = 8, array = 9 };

template <class T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  out += text;
}

void put_key(std::string& out, std::string_view key, value_type type) {
  put_text(out, key);
  put(out, type);
}

std::uint64_t padding(std::uint64_t at) {
  return (k_alignment - at % k_alignment) % k_alignment;
}

}  // namespace

std::uint64_t tensor::size_bytes() const {
  const std::uint64_t element = type == tensor_type::f32 ? 4 : 2;
  return std::accumulate(dims.begin(), dims.end(), element, std::multiplies<>());
}

void file::set(std::string_view key, std::uint32_t value) {
  put_key(keys_, key, value_type::u32);
  put(keys_, value);
  ++key_count_;
}

void file::set(std::string_view key, float value) {
  put_key(keys_, key, value_type::f32);
  put(keys_, value);
  ++key_count_;
}

void file::set(std::string_view key, std::string_view value) {
  put_key(keys_, key, value_type::string);
  put_text(keys_, value);
  ++key_count_;
}

void file::set(std::string_view key, const std::vector<std::int32_t>& values) {
  put_key(keys_, key, value_type::array);
  put(keys_, value_type::i32);
  put(keys_, std::uint64_t{values.size()});
  for (const std::int32_t value : values) put(keys_, value);
  ++key_count_;
}

void file::set(std::string_view key, const std::vector<std::string>& values) {
  put_key(keys_, key, value_type::array);
  put(keys_, value_type::string);
  put(keys_, std::uint64_t{values.size()});
  for (const std::string& value : values) put_text(keys_, value);
  ++key_count_;
}

engine::result<std::uint64_t> file::write(const std::filesystem::path& path) const {
  std::string head = "GGUF";
  put(head, k_version);
  put(head, std::uint64_t{tensors_.size()});
  put(head, key_count_);
  head += keys_;
  std::uint64_t at = 0;
  for (const tensor& t : tensors_) {
    put_text(head, t.name);
    put(head, static_cast<std::uint32_t>(t.dims.size()));
    for (const std::uint64_t dim : t.dims) put(head, dim);
    put(head, t.type);
    put(head, at);
    at += t.size_bytes() + padding(t.size_bytes());
  }
  head.append(padding(head.size()), '\0');

  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << head;
  for (const tensor& t : tensors_) {
    const auto begin = static_cast<std::uint64_t>(out.tellp());
    t.write(out);
    if (out && static_cast<std::uint64_t>(out.tellp()) - begin != t.size_bytes())
      return engine::fail(engine::errc::bad_model, t.name + " is not of the size of its dimensions");
    out << std::string(padding(t.size_bytes()), '\0');
  }
  out.flush();
  if (!out) return engine::fail(engine::errc::io, "cannot write " + path.string());
  return head.size() + at;
}

}  // namespace weir::tests::gguf
