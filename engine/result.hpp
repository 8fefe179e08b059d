// Value-or-error for the engine: expected failures (a bad file, a request out of range, a full queue) are
// values. Immutable once made; safe to move between threads.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace weir::engine {

enum class errc {
  io,              // a file could not be opened, read or mapped
  bad_model,       // a checkpoint or tokenizer file breaks its format; detail names file and place
  unsupported,     // well-formed, but a feature that this build does not run
  bad_request,     // a parameter or prompt the model cannot take; safe to show to the client
  context_length,  // prompt + new tokens exceed the model's context
  queue_full,      // the inbox is at its limit; retry later
  stopped,         // the engine is shutting down
  lost,            // a part of it in another process is gone: it serves nothing any more
};

struct error {
  errc code;
  std::string detail;  // a sentence for a person: what was wrong, where, what to do
};

template <class T>
using result = std::expected<T, error>;

inline std::unexpected<error> fail(errc code, std::string detail) {
  return std::unexpected(error{code, std::move(detail)});
}

}  // namespace weir::engine
