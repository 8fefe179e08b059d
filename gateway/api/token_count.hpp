// The tokens of a prompt by the model's own tokenizer, for those who only want to count. It counts as a
// request of the key's, and uses no tokens. One request, one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "gateway/api/endpoints.hpp"
#include "gateway/api/generation_call.hpp"

namespace weir::gateway::api {

struct token_ids {
  std::vector<std::int32_t> ids;
  const model_entry* entry = nullptr;  // of the context's snapshot
  http::header_list headers;           // what the key's limits say
};

// The whole prompt of a chat with the opener of its answer, or of a completion. errc::unsupported where the
// model has no tokenizer here, or the prompt holds what is no text. Yields the thread between slices.
task<result<token_ids>> count_tokens(request_context& context, result<generation_call> call);

}  // namespace weir::gateway::api
