// What answers under /admin/v1/. The dispatcher has let the request through before: host, origin, admin key.
// Thread rule: the request's I/O thread.
#pragma once

#include <string>

#include "gateway/errc.hpp"
#include "gateway/task.hpp"

namespace weir::gateway::api {
struct request_context;
}

namespace weir::gateway::admin {

struct answer {
  std::string body;
  int status = 200;
};

task<result<answer>> list_keys(api::request_context& context);
task<result<answer>> create_key(api::request_context& context);
task<result<answer>> show_key(api::request_context& context);
task<result<answer>> change_key(api::request_context& context);
task<result<answer>> erase_key(api::request_context& context);
task<result<answer>> rotate_key(api::request_context& context);
task<result<answer>> revoke_key(api::request_context& context);

task<result<answer>> list_tenants(api::request_context& context);
task<result<answer>> show_tenant(api::request_context& context);
task<result<answer>> put_tenant(api::request_context& context);

task<result<answer>> show_ledger(api::request_context& context);
task<result<answer>> show_traffic(api::request_context& context);
task<result<answer>> list_pairs(api::request_context& context);
task<result<answer>> show_openapi(api::request_context& context);

// Sends it, or the error.
task<void> finish(api::request_context& context, result<answer> made);

// A handler of the routes' table.
template <auto Make>
task<void> serve(api::request_context& context) {
  auto made = co_await Make(context);
  co_await finish(context, std::move(made));
}

}  // namespace weir::gateway::admin
