// The one error shape of every endpoint: {"error":{"message","type","param","code"}}. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "gateway/errc.hpp"
#include "gateway/http/exchange.hpp"

namespace weir::gateway::api {

std::string error_json(const error& e);

// For failures that the connection answers itself, by HTTP status.
std::string error_json(int status, std::string_view message);

// Status, body and, where a retry can help or cannot, the headers that SDKs obey.
http::reply error_reply(const error& e);

}  // namespace weir::gateway::api
