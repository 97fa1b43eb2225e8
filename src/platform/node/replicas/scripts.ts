/**
 * Lua scripts that change the state of one pool on the server. Each is atomic: readers see the bookings of a replica
 * and
 * the number of the last message at one instant.
 *
 * KEYS: 1 number of the last message, 2 hash of the open bookings of this replica, 3 sorted set of replicas with the
 * time
 * at which their presence expires. ARGV: 1 replica id, 2 generation, 3 channel, 4 lease in ms or last number seen.
 */

const CLOCK = `
local clock = redis.call('TIME')
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
`

/**
 * A lost counter restarts from the clock in µs. Fewer than 10⁶ messages/s are published, so that is above every number
 * used before, and readers detect the gap.
 */
const SEND = `
local function send(floor, text)
  local number = redis.call('INCR', KEYS[1])
  if number == 1 or number <= floor then
    number = clock[1] * 1000000 + clock[2]
    redis.call('SET', KEYS[1], string.format('%.0f', number))
  end
  redis.call('SPUBLISH', ARGV[3], string.format('%.0f ', number) .. ARGV[1] .. ' [' .. text .. ']')
  return number
end
`

/** Starts a generation: registers the replica without bookings. ARGV 5: last number this replica was given. */
const BEGIN = `${CLOCK}${SEND}
redis.call('UNLINK', KEYS[2])
redis.call('HSET', KEYS[2], '#', ARGV[2])
redis.call('PEXPIRE', KEYS[2], 4 * ARGV[4])
redis.call('ZADD', KEYS[3], ms + ARGV[4], ARGV[1])
return send(tonumber(ARGV[5]), '["begin"]')
`

/**
 * Applies one turn. From ARGV 5 on: operation, field, event. Returns the number of the message, or 0 if the server does
 * not have this generation of the replica or has lost messages. Nothing is changed then.
 *
 * Operations: `s` sets the field to the event, `m` marks it, `d` deletes all fields of a booking; these and `p` also
 * publish the event. `h` sets and `x` deletes the field without a message.
 */
const PUBLISH = `${CLOCK}${SEND}
if redis.call('HGET', KEYS[2], '#') ~= ARGV[2] then return 0 end
local presence = redis.call('ZSCORE', KEYS[3], ARGV[1])
if not presence or tonumber(presence) < ms then return 0 end
if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[4]) then return 0 end
local events = {}
for at = 5, #ARGV, 3 do
  local operation, field, event = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if operation == 's' or operation == 'h' then redis.call('HSET', KEYS[2], field, event)
  elseif operation == 'm' then redis.call('HSET', KEYS[2], field, '')
  elseif operation == 'x' then redis.call('HDEL', KEYS[2], field)
  elseif operation == 'd' then
    redis.call('HDEL', KEYS[2], 'b' .. field, 'f' .. field, 'e' .. field, 'p' .. field, 'o' .. field)
  end
  if operation ~= 'h' and operation ~= 'x' then events[#events + 1] = event end
end
if #events == 0 then return tonumber(ARGV[4]) end
return send(0, table.concat(events, ','))
`

/**
 * Renews the presence of a registered replica. An unregistered one is not added: a late heartbeat must not bring back a
 * replica that has left. Returns whether it is registered, the number of the last message, and the present replicas.
 */
const HEARTBEAT = `${CLOCK}
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. string.format('%.0f', ms))
local registered = 0
if redis.call('HGET', KEYS[2], '#') == ARGV[2] and redis.call('ZSCORE', KEYS[3], ARGV[1]) then
  registered = 1
  redis.call('ZADD', KEYS[3], ms + ARGV[4], ARGV[1])
  for at = 1, 3 do redis.call('PEXPIRE', KEYS[at], 4 * ARGV[4]) end
end
return {registered, redis.call('GET', KEYS[1]) or '0', unpack(redis.call('ZRANGE', KEYS[3], 0, -1))}
`

/** Removes the replica and its bookings. Published behind everything it has published before. */
const LEAVE = `${CLOCK}${SEND}
if redis.call('HGET', KEYS[2], '#') ~= ARGV[2] then return 0 end
redis.call('UNLINK', KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
return send(0, '["leave"]')
`

/**
 * Stores where a response is kept. KEYS 1: response. ARGV: tenant, entry, ms. A response stays with its first tenant.
 */
const KEEP = `
local known = redis.call('GET', KEYS[1])
if known and cjson.decode(known).tenant ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`

/**
 * Limits of one key (`KeyLimiter` in Lua, by the server's clock). KEYS: 1 hash with `r<second>` requests and
 * `t<second>` tokens of the last 61 seconds, their sums `r` and `t`, and the tokens of the day; 2 sorted set of running
 * requests with the time at which they lapse. ARGV 1: the time in ms, for tests; else empty.
 *
 * Only the seconds that have left since the last change are read, because a scan of all would cost some 200 µs.
 */
const USE = `
local ms = tonumber(ARGV[1])
if not ms then
  local clock = redis.call('TIME')
  ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
end
local stored = redis.call('HMGET', KEYS[1], 'ms', 'day', 'tokens', 'r', 't')
local before = tonumber(stored[1] or ms)
ms = math.max(ms, before)
local second, last = math.floor(ms / 1000), math.floor(before / 1000)
local day = math.floor(ms / 86400000)
local dayTokens = tonumber(stored[2] or -1) == day and tonumber(stored[3]) or 0
local used = {r = tonumber(stored[4] or 0), t = tonumber(stored[5] or 0)}
local function amounts(kind, from, to, fields)
  fields = fields or {}
  local first = #fields
  for at = from, to do fields[#fields + 1] = kind .. at end
  return redis.call('HMGET', KEYS[1], unpack(fields, first + 1))
end
local old = {}
if second > last then
  for kind in pairs(used) do
    for _, amount in ipairs(amounts(kind, last - 60, math.min(second - 61, last), old)) do
      used[kind] = used[kind] - tonumber(amount or 0)
    end
  end
end
local function save()
  if #old > 0 then redis.call('HDEL', KEYS[1], unpack(old)) end
  redis.call('HSET', KEYS[1], 'ms', ms, 'day', day, 'tokens', dayTokens, 'r', used.r, 't', used.t)
end
`

/**
 * Takes all limits of a request or none. ARGV: 2 id, 3 tokens, 4 lease in ms, 5 requests_per_min, 6 tokens_per_min,
 * 7 tokens_per_day, 8 concurrent; -1: no limit. Returns the number of the exceeded limit (0: none), the time until the
 * request would be admitted, the time of the reservation, then requests and tokens in use with the time until none are.
 */
const RESERVE = `${USE}
local function free(kind, most)
  local left = used[kind]
  for at, amount in ipairs(amounts(kind, second - 60, second)) do
    if left <= most then return math.max(0, (second - 1 + at) * 1000 - ms) end
    left = left - tonumber(amount or 0)
  end
  return (second + 61) * 1000 - ms
end
local function reset(kind)
  if used[kind] == 0 then return 0 end
  local at = second
  while tonumber(redis.call('HGET', KEYS[1], kind .. at) or 0) == 0 and at > second - 61 do at = at - 1 end
  return (at + 61) * 1000 - ms
end
local cost, lease = tonumber(ARGV[3]), tonumber(ARGV[4])
local rpm, tpm, tpd, most = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ms)
local exceeded, retry = 0, 0
if not redis.call('ZSCORE', KEYS[2], ARGV[2]) then
  if most >= 0 and redis.call('ZCARD', KEYS[2]) >= most then exceeded, retry = 1, 1000
  elseif rpm >= 0 and used.r + 1 > rpm then exceeded, retry = 2, free('r', rpm - 1)
  elseif tpm >= 0 and used.t + cost > tpm then exceeded, retry = 3, free('t', tpm - cost)
  elseif tpd >= 0 and dayTokens + cost > tpd then exceeded, retry = 4, (day + 1) * 86400000 - ms
  else
    used.r, used.t, dayTokens = used.r + 1, used.t + cost, dayTokens + cost
    save()
    redis.call('HINCRBY', KEYS[1], 'r' .. second, 1)
    redis.call('HINCRBY', KEYS[1], 't' .. second, cost)
    redis.call('ZADD', KEYS[2], ms + lease, ARGV[2])
    redis.call('PEXPIRE', KEYS[1], tpd >= 0 and 90000000 or 122000)
    redis.call('PEXPIRE', KEYS[2], 2 * lease)
  end
end
return {exceeded, retry, ms, used.r, reset('r'), used.t, reset('t')}
`

/** Ends a request. ARGV: 2 id, 3 reserved tokens, 4 time of the reservation, 5 used tokens; -1: unknown. */
const SETTLE = `${USE}
if redis.call('ZREM', KEYS[2], ARGV[2]) == 0 or tonumber(ARGV[5]) < 0 then return 0 end
local more = ARGV[5] - ARGV[3]
local at = math.floor((more > 0 and ms or tonumber(ARGV[4])) / 1000)
if more > 0 or math.floor(ARGV[4] / 86400000) == day then dayTokens = math.max(0, dayTokens + more) end
if at <= second and at > second - 61 then
  local amount = tonumber(redis.call('HGET', KEYS[1], 't' .. at) or 0)
  more = math.max(more, -amount)
  redis.call('HSET', KEYS[1], 't' .. at, amount + more)
  used.t = math.max(0, used.t + more)
end
save()
if redis.call('PTTL', KEYS[1]) == -1 then redis.call('PEXPIRE', KEYS[1], 90000000) end
return 1
`

/** Renews running requests, also those that the server has lost. ARGV: 1 empty, 2 lease in ms, then ids. */
const RENEW = `
local clock = redis.call('TIME')
local lapse = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[2])
for at = 3, #ARGV do redis.call('ZADD', KEYS[1], lapse, ARGV[at]) end
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2])
return 1
`

export const SCRIPTS = {
  begin: BEGIN,
  publish: PUBLISH,
  heartbeat: HEARTBEAT,
  leave: LEAVE,
  keep: KEEP,
  reserve: RESERVE,
  settle: SETTLE,
  renew: RENEW,
} as const

export type ScriptName = keyof typeof SCRIPTS
