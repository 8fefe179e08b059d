// Edits of a request body on its way to a target: the model's name, and the wish for a stream's usage event.
// Every other byte stays as the client sent it. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::gateway::api {

// `body`: one valid JSON object without a key twice, as read_generation_call accepts it. Replaces the value
// of its key "model" by `model` unless that is empty, and makes stream_options.include_usage true where
// `ask_usage`. Nothing where no byte has to change.
std::optional<std::string> edit_body(std::string_view body, std::string_view model, bool ask_usage);

}  // namespace weir::gateway::api
