#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <map>

#include "gateway/admin/common.hpp"
#include "gateway/admin/handlers.hpp"
#include "gateway/admin/key_body.hpp"
#include "gateway/api/json.hpp"
#include "gateway/auth/key_text.hpp"

namespace weir::gateway::admin {

namespace {

struct tenant_view {
  std::int64_t weight = 1;
  std::string_view source = "default";  // where the weight is from
  std::size_t keys = 0;                 // that open
};

// Those with a weight, and those that only keys name.
std::map<std::string, tenant_view, std::less<>> all_tenants(const limits::key_services& keys) {
  std::map<std::string, tenant_view, std::less<>> out;
  if (keys.money) {
    for (const auto& t : keys.money->tenants()) out[t.name] = {t.weight, "admin"};
  }
  for (const auto& t : keys.ring.configured_tenants()) out[t.name] = {t.weight, "config"};
  for (const auto& key : keys.ring.all()) ++out[key.tenant].keys;
  return out;
}

std::string to_json(const std::string& name, const tenant_view& tenant) {
  std::string out = R"({"name":)";
  api::append_quoted(out, name);
  return out +
         fmt::format(R"(,"weight":{},"source":"{}","keys":{}}})", tenant.weight, tenant.source, tenant.keys);
}

result<void> check_changeable(const limits::key_services& keys, const std::string& name) {
  for (const auto& tenant : keys.ring.configured_tenants()) {
    if (tenant.name == name) {
      return fail(
          errc::conflict,
          "this tenant's weight is in the configuration file, under auth.tenants: change it there and "
          "reload (SIGHUP)");
    }
  }
  return {};
}

}  // namespace

task<result<answer>> list_tenants(api::request_context& context) {
  std::string body;
  for (const auto& [name, tenant] : all_tenants(context.state.keys)) {
    body += (body.empty() ? "" : ",") + to_json(name, tenant);
  }
  co_return answer{R"({"data":[)" + body + "]}"};
}

task<result<answer>> show_tenant(api::request_context& context) {
  const auto name = path_name(context);
  if (!name) co_return std::unexpected(name.error());
  const auto tenants = all_tenants(context.state.keys);
  const auto found = tenants.find(*name);
  if (found == tenants.end()) co_return fail(errc::key_not_found, "no tenant of this name");
  co_return answer{to_json(*name, found->second)};
}

task<result<answer>> put_tenant(api::request_context& context) {
  const auto name = path_name(context);
  if (!name) co_return std::unexpected(name.error());
  if (const auto wrong = auth::fault_of_name(*name); !wrong.empty()) {
    co_return fail(errc::bad_request, fmt::format("the tenant's name in the path: {}", wrong), "name");
  }
  const auto body = co_await read_body(context);
  if (!body) co_return std::unexpected(body.error());
  const auto weight = read_weight(*body);
  if (!weight) co_return std::unexpected(weight.error());
  limits::key_writer::plan make = [&keys = context.state.keys, name = *name,
                                   weight = *weight]() -> result<limits::key_change> {
    if (auto free = check_changeable(keys, name); !free) return std::unexpected(free.error());
    return auth::tenant_record{.name = name, .weight = weight};
  };
  const auto made = co_await commit(context, std::move(make));
  if (!made) co_return std::unexpected(made.error());
  spdlog::info("admin: tenant '{}' has weight {}", *name, *weight);
  const auto tenants = all_tenants(context.state.keys);
  co_return answer{to_json(*name, tenants.at(*name))};
}

}  // namespace weir::gateway::admin
