// What runs inside the store, in Lua 5.1, each call at once and alone. Times are the store's: gateways'
// clocks do not matter. A cell is at most two windows ahead, whatever is owed and however the store's clock
// jumped. Integers stay exact up to 2^53: microseconds, and money up to nine million dollars.
//
// Keys, behind the configured prefix:
//   site          hash: epoch, since (us), "s:GATEWAY" = its session's number
//   r:KEY         hash: the GCRA cells of requests (r) and tokens (t), us
//   c:KEY         hash: GATEWAY = "slots:until_ms"
//   m:KEY:WINDOW  hash: GATEWAY = its claim in nano-USD; WINDOW is 2026-11-30 or 2026-11
//
// A store that lost its data, or a part of it, has another epoch than the gateways know, or lacks a claim
// that it has confirmed. Then an epoch begins, in which no money is granted until every gateway had the time
// to make its claims known again. A command of a connection that was given up may still be executed (a frozen
// store reads it when it wakes up); its session's number is old by then, and it does nothing.
#pragma once

#include <string_view>

namespace weir::gateway::shared {

// KEYS: site. ARGV: gateway, epoch known to be broken or "", name of a new epoch.
// Gives epoch, session, ms since the epoch began.
inline constexpr std::string_view k_hello_script = R"lua(
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch or epoch == ARGV[2] then
  epoch = ARGV[3]
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'since', string.format('%.0f', now))
end
local session = redis.call('HINCRBY', KEYS[1], 's:' .. ARGV[1], 1)
local since = tonumber(redis.call('HGET', KEYS[1], 'since'))
return {epoch, tostring(session), math.floor((now - since) / 1000)}
)lua";

// KEYS: site, r, c, m of the day, m of the month. ARGV:
//   1 gateway, 2 epoch, 3 session, 4 lease_ms, 5 grace_ms
//   6 limit, need, want, owed, refunds ("units:until,...") of requests; 11 of tokens
//   16 limit, running, want of slots
//   19 limit, hold, need, want, known, seeds ("gateway=nano,...") of the day; 25 of the month; hold -1:
//   nothing
// Gives {0} for an old session or epoch, {2} where a claim is missing, else
//   {1, now_us, grace_left_ms, [units, until_us, ahead_us] of requests and tokens, slots, slots free,
//    [claim, total, {gateway, nano, ...}] of day and month}; claims and totals as text.
inline constexpr std::string_view k_sync_script = R"lua(
local me, window = ARGV[1], 60000000
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function text(number) return string.format('%.0f', number) end
local function arg(at) return tonumber(ARGV[at]) end

local site = redis.call('HMGET', KEYS[1], 'epoch', 's:' .. me, 'since')
if site[1] ~= ARGV[2] or site[2] ~= ARGV[3] then return {0} end
local function is_whole(key, at)
  return arg(at + 1) < 0 or tonumber(redis.call('HGET', key, me) or '0') >= arg(at + 4)
end
if not (is_whole(KEYS[4], 19) and is_whole(KEYS[5], 25)) then return {2} end
local grace = tonumber(site[3]) + arg(5) * 1000 - now

local function rate(field, at)
  local limit, need, want, owed = arg(at), arg(at + 1), arg(at + 2), arg(at + 3)
  if limit == 0 then return 0, 0, 0 end
  local old = tonumber(redis.call('HGET', KEYS[2], field) or '0')
  local most = now + 2 * window
  local tat = math.max(now, math.min(old, most))
  for units, till in string.gmatch(ARGV[at + 4], '(%d+):(%d+)') do
    local back = math.min(math.floor(units * window / limit), till - now)
    if back > 0 then tat = math.max(now, tat - back) end
  end
  tat = math.min(tat + math.ceil(owed * window / limit), most)
  local room = math.floor((now + window - tat) * limit / window)
  local got = 0
  if want > 0 and room > 0 and room >= need then
    got = math.min(room, want)
    tat = tat + math.ceil(got * window / limit)
  end
  if tat > now or old > now then
    redis.call('HSET', KEYS[2], field, text(tat))
    redis.call('PEXPIRE', KEYS[2], math.ceil((tat - now) / 1000) + 120000)
  end
  return got, tat, tat - now
end

local function slots(at)
  local limit, running, want = arg(at), arg(at + 1), arg(at + 2)
  if limit == 0 then return 0, 0 end
  local others, now_ms = 0, math.floor(now / 1000)
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    local count, till = string.match(all[i + 1], '(%d+):(%d+)')
    if tonumber(till) <= now_ms then
      redis.call('HDEL', KEYS[3], all[i])
    elseif all[i] ~= me then
      others = others + count
    end
  end
  local free = limit - others
  local got = math.max(running, math.min(want, free))
  if got > 0 then
    redis.call('HSET', KEYS[3], me, text(got) .. ':' .. text(now_ms + arg(4)))
    redis.call('PEXPIRE', KEYS[3], arg(4) * 2)
  else
    redis.call('HDEL', KEYS[3], me)
  end
  return got, free - got
end

local function money(key, at, ttl_s)
  local limit, hold, need, want = arg(at), arg(at + 1), arg(at + 2), arg(at + 3)
  if hold < 0 then return '0', '0', {} end
  for name, amount in string.gmatch(ARGV[at + 5], '(%w+)=(%d+)') do
    if name ~= me and tonumber(amount) > tonumber(redis.call('HGET', key, name) or '0') then
      redis.call('HSET', key, name, amount)
    end
  end
  local others = 0
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if all[i] ~= me then others = others + all[i + 1] end
  end
  local room, claim = limit - others - hold, hold
  if grace <= 0 and want > 0 and room > 0 and room >= need then claim = hold + math.min(room, want) end
  redis.call('HSET', key, me, text(claim))
  redis.call('EXPIRE', key, ttl_s)
  return text(claim), text(others + claim), all
end

local r_got, r_until, r_ahead = rate('r', 6)
local t_got, t_until, t_ahead = rate('t', 11)
local s_got, s_free = slots(16)
local d_claim, d_total, d_all = money(KEYS[4], 19, 259200)
local m_claim, m_total, m_all = money(KEYS[5], 25, 3456000)
return {1, now, math.max(0, math.ceil(grace / 1000)), r_got, r_until, r_ahead, t_got, t_until, t_ahead,
        s_got, s_free, d_claim, d_total, d_all, m_claim, m_total, m_all}
)lua";

}  // namespace weir::gateway::shared
