// Undoes the content codings gzip and deflate of RFC 9110 section 8.4.1, streaming and with a bound on what
// comes out. One body, one owner.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace weir::gateway::http {

class inflater final {
 public:
  inflater();
  ~inflater();
  inflater(const inflater&) = delete;
  inflater& operator=(const inflater&) = delete;

  // Appends what `in` decodes to. False, for good, on malformed data, data behind the end, or where `out`
  // would pass bytes_max; what it then holds means nothing.
  bool inflate(std::string_view in, std::string& out, std::size_t bytes_max);

  bool finished() const noexcept;  // the end of the compressed data was seen

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace weir::gateway::http
