// The path of a generation request behind its parsing: choose a target, start it, pass its output on. The
// head goes out with the first piece of output, so a failure before it has its true status; a failure after
// it is one error event and an aborted body. One request, one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/api/endpoints.hpp"
#include "gateway/upstream/upstream.hpp"

namespace weir::gateway::relay {

// A body that must be JSON, or the error to answer. `limit_bytes` 0: limits.body_bytes.
task<result<std::string>> read_json_body(api::request_context& context, std::size_t limit_bytes = 0);

// Answers `e` unless the client is gone, with these headers besides its own.
task<void> refuse(api::request_context& context, const error& e, http::header_list headers = {});

// The model that a request names, if this caller may use it.
result<const model_entry*> find_model(api::request_context& context, std::string_view model);

// What speaks against each target, as the error that a client reads.
error why_none(const policy::decision& decision, std::string_view model);

// Takes a request to a target and its output to the client, to its end. `id_prefix` begins the identifier of
// an answer that the gateway writes itself.
task<void> relay_call(api::request_context& context, std::shared_ptr<const api::generation_call> call,
                      std::string_view id_prefix);

}  // namespace weir::gateway::relay
