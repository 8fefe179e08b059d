// Places in the text of a JSON value, and edits of them that leave every other byte alone.
//
// REQUIRES everywhere: the text holds one valid JSON value without a key twice (json.hpp checks both).
// Nothing recurses, and a value is passed over at the speed of a search for its quotes. Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::gateway::api {

struct text_span {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::string_view in(std::string_view text) const { return text.substr(begin, end - begin); }
};

struct text_member {
  text_span key;  // with its quotes
  text_span value;
};

// Whether a key, as written with its quotes and perhaps escapes, says `name`.
bool is_key(std::string_view quoted, std::string_view name);

// Of the object, or the array, that begins at `at` or behind spaces there; nothing where another value does.
std::vector<text_member> members_of(std::string_view text, std::size_t at);
std::vector<text_span> elements_of(std::string_view text, std::size_t at);
std::optional<text_member> find_member(std::string_view text, std::size_t at, std::string_view name);

// Replacements that do not overlap.
class text_edits final {
 public:
  void replace(text_span where, std::string text) { edits_.push_back({where, std::move(text)}); }

  // A new first member of the object that begins at `at`, as `"key":value`.
  void insert_first(std::string_view body, std::size_t at, std::string_view member_text);

  // Takes out the marked ones of `members`, all those of the object that begins at `at`, with their commas.
  void remove(std::string_view body, std::size_t at, const std::vector<text_member>& members,
              const std::vector<bool>& marked);

  bool empty() const noexcept { return edits_.empty(); }

  // `body` with the replacements. What is replaced at one place comes in the order of the calls.
  std::string apply(std::string_view body);

 private:
  struct edit {
    text_span where;
    std::string text;
  };
  std::vector<edit> edits_;
};

}  // namespace weir::gateway::api
