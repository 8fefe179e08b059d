// Appends JSON to a string with the commas in their places; no tree is built. The caller closes what it
// opens. Values; one owner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/api/json.hpp"

namespace weir::gateway::dialects {

class json_writer final {
 public:
  explicit json_writer(std::string& out) : out_(out) {}

  json_writer& open(char bracket) {
    separate();
    out_ += bracket;
    comma_ = false;
    return *this;
  }
  json_writer& close(char bracket) {
    out_ += bracket;
    comma_ = true;
    return *this;
  }
  // Before each value of an object. `name`: plain characters.
  json_writer& key(std::string_view name) {
    separate();
    out_ += '"';
    out_ += name;
    out_ += "\":";
    comma_ = false;
    return *this;
  }
  // REQUIRES: valid UTF-8.
  json_writer& text(std::string_view value) {
    separate();
    api::append_quoted(out_, value);
    return *this;
  }
  json_writer& number(std::int64_t value) { return raw(std::to_string(value)); }
  json_writer& flag(bool value) { return raw(value ? "true" : "false"); }
  // REQUIRES: one valid JSON value.
  json_writer& raw(std::string_view json) {
    separate();
    out_ += json;
    return *this;
  }

 private:
  void separate() {
    if (comma_) out_ += ',';
    comma_ = true;
  }

  std::string& out_;
  bool comma_ = false;
};

}  // namespace weir::gateway::dialects
