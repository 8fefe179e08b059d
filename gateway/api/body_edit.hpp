// Edits of a request body on its way to a target: the model's name, the wish for a stream's usage event, and
// what the gateway tells a replica. Every other byte stays as the client sent it. Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir::gateway::api {

struct body_member {
  std::string key;   // plain characters
  std::string json;  // its value
};

// `body`: one valid JSON object without a key twice, as read_generation_call accepts it. Replaces the value
// of its key "model" by `model` unless that is empty, and makes stream_options.include_usage true where
// `ask_usage`. Sets `members`, in place of those that the body has under their keys. Nothing where no byte
// has to change.
std::optional<std::string> edit_body(std::string_view body, std::string_view model, bool ask_usage,
                                     std::span<const body_member> members = {});

}  // namespace weir::gateway::api
