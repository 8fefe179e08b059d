// The load-test tools' two HTTP readers on arbitrary bytes: no fault, and the same messages whole and in two
// parts.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "loadtest/bench/response_reader.hpp"
#include "loadtest/mock/request_reader.hpp"

using namespace weir::loadtest;

namespace {

std::string digest(const mock::request_reader& reader) {
  const auto& request = reader.current();
  return request.method + ' ' + request.target + ' ' + request.authorization + ' ' + request.fault + ' ' +
         request.body + (request.keep_alive ? " kept\n" : " ended\n");
}

std::string digest(const bench::response_reader& reader) {
  return std::to_string(reader.status()) + ' ' + std::to_string(reader.events()) + ' ' +
         std::to_string(reader.closes()) + std::to_string(reader.ends_with_done()) + '\n';
}

bool failed(const mock::request_reader& reader) {
  return reader.malformed();
}

bool failed(const bench::response_reader& reader) {
  return reader.broken();
}

template <class Reader>
std::string read(std::string_view bytes, std::size_t cut) {
  Reader reader;
  std::string out;
  for (auto part : {bytes.substr(0, cut), bytes.substr(cut)}) {
    while (!part.empty()) {
      const auto used = reader.take(part);
      if (used == 0 || used > part.size()) std::abort();
      part.remove_prefix(used);
      if (failed(reader)) return out + "failed";
      if (!reader.complete()) continue;
      out += digest(reader);
      reader.reset();
    }
  }
  return out + (reader.started() ? "cut" : "whole");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t cut = static_cast<std::size_t>(data[0] * 256 + data[1]) % (size - 1);
  const std::vector<char> bytes(data + 2, data + size);
  const std::string_view all(bytes.data(), bytes.size());
  if (read<mock::request_reader>(all, all.size()) != read<mock::request_reader>(all, cut)) std::abort();
  if (read<bench::response_reader>(all, all.size()) != read<bench::response_reader>(all, cut)) std::abort();
  return 0;
}
