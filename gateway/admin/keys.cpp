#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include "gateway/admin/common.hpp"
#include "gateway/admin/handlers.hpp"
#include "gateway/admin/key_body.hpp"
#include "gateway/admin/key_json.hpp"
#include "gateway/api/json.hpp"

namespace weir::gateway::admin {

namespace {

using api::request_context;
using auth::key_record;

std::string key_json(const key_record& key, bool configured) {
  return open_key_json(key, configured ? "config" : "admin", now_s());
}

// With the key itself, the only time that it is shown.
std::string shown_once(const key_record& record, const std::string& key) {
  std::string out = key_json(record, false) + R"(,"key":)";
  api::append_quoted(out, key);
  return out + '}';
}

model_check served_models(const request_context& context) {
  return [snap = context.snap](std::string_view name) {
    const auto* entry = snap->find_model(name);
    return entry != nullptr && entry->name == name;
  };
}

key_usage usage_of(limits::key_services& keys, const key_record& key) {
  const auto account = keys.accounts.of(key.id);
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  const auto now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  const auto look = [now_ns](const policy::limits::gcra_cell& cell, std::int64_t limit) {
    return limit == 0 ? std::nullopt : std::optional(cell.look({.limit = limit}, now_ns));
  };
  key_usage out{.running = account->running()};
  out.requests = look(account->requests, key.terms.limits.requests_per_min);
  out.tokens = look(account->tokens, key.terms.limits.tokens_per_min);
  if (keys.money) out.spend = keys.money->spent(key.id);
  return out;
}

// Commits a change of one key, says so in the log, and gives the key as it is now.
task<result<key_record>> commit_key(request_context& context, std::string_view what,
                                    limits::key_writer::plan make) {
  auto made = co_await commit(context, std::move(make));
  if (!made) co_return std::unexpected(made.error());
  auto record = std::get<key_record>(std::move(*made));
  spdlog::info("admin: {} key {} ('{}' of tenant '{}')", what, record.id, record.name, record.tenant);
  co_return record;
}

error is_revoked() {
  return {errc::conflict, "this key is revoked, which is final; make a new one"};
}

// A plan that changes a key that is neither configured nor revoked.
template <class Change>
limits::key_writer::plan change_of(request_context& context, std::string id, Change change) {
  return [&keys = context.state.keys, id = std::move(id),
          change = std::move(change)]() -> result<limits::key_change> {
    auto key = changeable_key(keys, id);
    if (!key) return std::unexpected(key.error());
    if (key->revoked) return std::unexpected(is_revoked());
    change(*key);
    return std::move(*key);
  };
}

}  // namespace

task<result<answer>> show_key(request_context& context) {
  const auto id = path_name(context);
  if (!id) co_return std::unexpected(id.error());
  const auto found = find_key(context.state.keys, *id);
  if (!found) co_return std::unexpected(no_such_key());
  const auto usage = usage_of(context.state.keys, found->record);
  co_return answer{key_json(found->record, found->configured) + R"(,"usage":)" +
                   to_json(usage, found->record.terms.limits) + '}'};
}

task<result<answer>> create_key(request_context& context) {
  const auto body = co_await read_body(context);
  if (!body) co_return std::unexpected(body.error());
  const auto asked = read_new_key(*body, served_models(context));
  if (!asked) co_return std::unexpected(asked.error());
  const auto key = auth::generate_key();
  key_record record{.id = auth::random_id("key_"),
                    .name = asked->name,
                    .tenant = asked->tenant,
                    .digest = context.state.keys.ring.digest_of(key).value_or(auth::digest{}),
                    .created_s = now_s()};
  asked->terms.apply(record.terms);
  limits::key_writer::plan make = [&ring = context.state.keys.ring, record]() -> result<limits::key_change> {
    if (const auto taken = ring.claim(record)) return fail(errc::conflict, *taken, "name");
    return record;
  };
  const auto made = co_await commit_key(context, "made", std::move(make));
  if (!made) co_return std::unexpected(made.error());
  co_return answer{shown_once(*made, key), 201};
}

task<result<answer>> change_key(request_context& context) {
  auto id = path_name(context);
  if (!id) co_return std::unexpected(id.error());
  const auto body = co_await read_body(context);
  if (!body) co_return std::unexpected(body.error());
  const auto asked = read_terms_change(*body, served_models(context));
  if (!asked) co_return std::unexpected(asked.error());
  auto make =
      change_of(context, std::move(*id), [terms = *asked](key_record& key) { terms.apply(key.terms); });
  const auto made = co_await commit_key(context, "changed", std::move(make));
  if (!made) co_return std::unexpected(made.error());
  co_return answer{key_json(*made, false) + '}'};
}

task<result<answer>> rotate_key(request_context& context) {
  auto id = path_name(context);
  if (!id) co_return std::unexpected(id.error());
  const auto body = co_await read_body(context);
  if (!body) co_return std::unexpected(body.error());
  const auto grace_s = read_grace_s(*body);
  if (!grace_s) co_return std::unexpected(grace_s.error());
  const auto key = auth::generate_key();
  const auto digest = context.state.keys.ring.digest_of(key).value_or(auth::digest{});
  auto make = change_of(context, std::move(*id), [digest, grace_s = *grace_s](key_record& record) {
    record.previous_digest.reset();
    record.previous_until_s = 0;
    if (grace_s > 0) {
      record.previous_digest = record.digest;
      record.previous_until_s = now_s() + grace_s;
    }
    record.digest = digest;
  });
  const auto made = co_await commit_key(context, "rotated", std::move(make));
  if (!made) co_return std::unexpected(made.error());
  co_return answer{shown_once(*made, key)};
}

task<result<answer>> revoke_key(request_context& context) {
  auto id = path_name(context);
  if (!id) co_return std::unexpected(id.error());
  const auto body = co_await read_body(context);
  if (!body) co_return std::unexpected(body.error());
  if (const auto nothing = read_nothing(*body); !nothing) co_return std::unexpected(nothing.error());
  limits::key_writer::plan make = [&keys = context.state.keys,
                                   id = std::move(*id)]() -> result<limits::key_change> {
    auto key = changeable_key(keys, id);
    if (!key) return std::unexpected(key.error());
    key->revoked = true;
    return std::move(*key);
  };
  const auto made = co_await commit_key(context, "revoked", std::move(make));
  if (!made) co_return std::unexpected(made.error());
  co_return answer{key_json(*made, false) + '}'};
}

task<result<answer>> erase_key(request_context& context) {
  const auto id = path_name(context);
  if (!id) co_return std::unexpected(id.error());
  limits::key_writer::plan make = [&keys = context.state.keys, id = *id]() -> result<limits::key_change> {
    const auto key = changeable_key(keys, id);
    if (!key) return std::unexpected(key.error());
    if (!key->revoked) return fail(errc::conflict, "only a revoked key can be erased: revoke it first");
    return limits::erased_key{id};
  };
  const auto made = co_await commit(context, std::move(make));
  if (!made) co_return std::unexpected(made.error());
  spdlog::info("admin: erased key {}", *id);
  std::string body = R"({"id":)";
  api::append_quoted(body, *id);
  co_return answer{body + R"(,"erased":true})"};
}

}  // namespace weir::gateway::admin
