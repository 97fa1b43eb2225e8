/**
 * Lua scripts that change the state of one pool on the server. Each is atomic: readers see the bookings of a replica
 * and the number of the last message at one instant.
 *
 * KEYS: 1 number of the last message, 2 hash of the open bookings of this replica, 3 sorted set of replicas with the
 * time at which their presence expires. ARGV: 1 replica id, 2 generation, 3 channel, 4 lease in ms or number of the
 * replica's last message. The hash also has the generation in `#` and the number of the replica's last message in `@`.
 */
import { createHash } from 'node:crypto'

export interface Script {
  readonly text: string
  readonly sha: string
}

export const script = (text: string): Script => ({ text, sha: createHash('sha1').update(text).digest('hex') })

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
  redis.call('HSET', KEYS[2], '@', string.format('%.0f', number))
  redis.call('SPUBLISH', ARGV[3], string.format('%.0f ', number) .. ARGV[1] .. ' [' .. text .. ']')
  return number
end
`

/**
 * Starts a generation: registers the replica without bookings. ARGV 4: lease, 5: last number this replica was given.
 */
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
 * Operations: `s` sets the field to the event, `d` deletes all fields of a booking; these and `p` publish the event.
 * `h` sets the field without a message.
 */
const PUBLISH = `${CLOCK}${SEND}
local known = redis.call('HMGET', KEYS[2], '#', '@')
if known[1] ~= ARGV[2] or tonumber(known[2]) < tonumber(ARGV[4]) then return 0 end
local presence = redis.call('ZSCORE', KEYS[3], ARGV[1])
if not presence or tonumber(presence) < ms then return 0 end
local events = {}
for at = 5, #ARGV, 3 do
  local operation, field, event = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if operation == 's' or operation == 'h' then redis.call('HSET', KEYS[2], field, event)
  elseif operation == 'd' then
    redis.call('HDEL', KEYS[2], 'b' .. field, 'f' .. field, 'e' .. field, 'p' .. field, 'o' .. field)
  end
  if operation ~= 'h' then events[#events + 1] = event end
end
if #events == 0 then return tonumber(ARGV[4]) end
return send(0, table.concat(events, ','))
`

/**
 * Renews the presence of a registered replica. An unregistered one is not added: a late heartbeat must not bring back a
 * replica that has left. ARGV 5: number of the replica's last message. Returns whether the server has all of it, the
 * number of the last message of all, and the present replicas.
 */
const HEARTBEAT = `${CLOCK}
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', '(' .. string.format('%.0f', ms))
local registered, known = 0, redis.call('HMGET', KEYS[2], '#', '@')
if known[1] == ARGV[2] and tonumber(known[2]) >= tonumber(ARGV[5]) and redis.call('ZSCORE', KEYS[3], ARGV[1]) then
  registered = 1
  redis.call('ZADD', KEYS[3], ms + ARGV[4], ARGV[1])
  for at = 1, 3 do redis.call('PEXPIRE', KEYS[at], 4 * ARGV[4]) end
end
return {registered, redis.call('GET', KEYS[1]) or '0', unpack(redis.call('ZRANGE', KEYS[3], 0, -1))}
`

/** Removes the replica and its bookings. Published behind everything it has published before. */
const LEAVE = `${CLOCK}${SEND}
if redis.call('HGET', KEYS[2], '#') ~= ARGV[2] then return 0 end
local number = send(0, '["leave"]')
redis.call('UNLINK', KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
return number
`

export const SCRIPTS = {
  begin: script(BEGIN),
  publish: script(PUBLISH),
  heartbeat: script(HEARTBEAT),
  leave: script(LEAVE),
} as const
