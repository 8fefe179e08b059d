// An answer as an object of OpenAI's responses API, or as its typed events. One answer, one thread.
#pragma once

#include <memory>
#include <string>

#include "gateway/api/response_writer.hpp"

namespace weir::gateway::api {

// `echo`: members that the answer repeats from the request, JSON without braces. Answers have one choice.
std::unique_ptr<response_writer> make_responses_writer(answer_identity identity, std::string echo,
                                                       bool stream);

}  // namespace weir::gateway::api
