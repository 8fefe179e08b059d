// What the handlers of the admin API share. Thread rule: the request's I/O thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/endpoints.hpp"
#include "gateway/auth/key_terms.hpp"
#include "gateway/limits/key_writer.hpp"

namespace weir::gateway::admin {

// Unix time.
std::int64_t now_s() noexcept;

// %XX to bytes; nothing where it is malformed.
std::optional<std::string> percent_decode(std::string_view text);

// What the path names, decoded.
result<std::string> path_name(const api::request_context& context);

// A key that is known, revoked ones too, and where it lives.
struct found_key {
  auth::key_record record;
  bool configured = false;
};
std::optional<found_key> find_key(const limits::key_services& keys, std::string_view id);
error no_such_key();

// The key as it may be changed: the record, or why not (unknown, of the configuration file).
result<auth::key_record> changeable_key(const limits::key_services& keys, std::string_view id);

// Reads a small JSON body; an empty one is allowed.
task<result<std::string>> read_body(api::request_context& context);

// Makes the change and waits until it is durable and in force, at most k_change_wait.
task<result<limits::key_change>> commit(api::request_context& context, limits::key_writer::plan make);

}  // namespace weir::gateway::admin
