/**
 * Lua scripts for the state of one pool on the server. Each is atomic.
 *
 * KEYS: 1 hash of the open bookings of this replica, which also has the number of its last message (hash-fields.ts);
 * 2 sorted set of replicas with the time at which their presence expires. ARGV: 1 replica id, 2 number, 3 channel. The
 * replica numbers its messages itself, so a turn that was lost, overtaken or sent twice is refused, and readers detect
 * gaps.
 */
import { createHash } from 'node:crypto'
import { BOOKING_LETTERS, NUMBER_FIELD } from './hash-fields.ts'

export interface Script {
  readonly text: string
  readonly sha: string
}

export const script = (text: string): Script => ({ text, sha: createHash('sha1').update(text).digest('hex') })

export const CLOCK = `
local clock = redis.call('TIME')
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
`

const SEND = `
local function send(number, events)
  redis.call('SPUBLISH', ARGV[3], number .. ' ' .. ARGV[1] .. ' [' .. events .. ']')
end
`

/** Renews the presence of the replica. ARGV 4: lease in ms. */
const RENEW = `${CLOCK}
local function renew()
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  redis.call('ZADD', KEYS[2], ms + ARGV[4], ARGV[1])
  redis.call('PEXPIRE', KEYS[2], 4 * ARGV[4])
end
`

/** Registers the replica without bookings. ARGV 2: the next number. Returns 0 if the server has a later one. */
const BEGIN = `${RENEW}${SEND}
if tonumber(redis.call('HGET', KEYS[1], '${NUMBER_FIELD}') or 0) >= tonumber(ARGV[2]) then return 0 end
redis.call('UNLINK', KEYS[1])
redis.call('HSET', KEYS[1], '${NUMBER_FIELD}', ARGV[2])
renew()
send(ARGV[2], '["begin"]')
return 1
`

/**
 * What an event of a turn changes in the hash. `set`: the field becomes the event. `delete`: all fields of a booking,
 * whose key is in place of the field, are deleted. `announce`: nothing. `store`: as `set`, but the event is not
 * published.
 */
export type Operation = 'set' | 'delete' | 'announce' | 'store'

/**
 * Applies one turn. ARGV 2: number of the message before it; from 4 on: operation, field, event. Returns 0 if the
 * server does not have exactly what was published before. Nothing is changed then.
 *
 * Each turn has a number and a message, so that the loss of any is detected.
 */
const PUBLISH = `${SEND}
if redis.call('HGET', KEYS[1], '${NUMBER_FIELD}') ~= ARGV[2] then return 0 end
local events = {}
for at = 4, #ARGV, 3 do
  local operation, field, event = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if operation == 'set' or operation == 'store' then redis.call('HSET', KEYS[1], field, event)
  elseif operation == 'delete' then
    redis.call('HDEL', KEYS[1], ${BOOKING_LETTERS.map((letter) => `'${letter}' .. field`).join(', ')})
  end
  if operation ~= 'store' then events[#events + 1] = event end
end
if #events == 0 then events[1] = '["piece"]' end
send(redis.call('HINCRBY', KEYS[1], '${NUMBER_FIELD}', 1), table.concat(events, ','))
return 1
`

/**
 * Renews the presence of a registered replica and publishes the number of its last message. An unregistered one is not
 * added: a late heartbeat must not bring back a replica that has left. ARGV 2: number of its last acknowledged message.
 * Returns whether the server has all of it, and the present replicas.
 */
const HEARTBEAT = `${RENEW}${SEND}
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. string.format('%.0f', ms))
local registered, last = 0, redis.call('HGET', KEYS[1], '${NUMBER_FIELD}')
if last and tonumber(last) >= tonumber(ARGV[2]) and redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  registered = 1
  renew()
  send(last, '')
end
return {registered, unpack(redis.call('ZRANGE', KEYS[2], 0, -1))}
`

/** Part of the hash of a replica, with the number of its last message. KEYS: 1 hash. ARGV: 1 cursor, 2 fields. */
const READ = `
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
return {redis.call('HGET', KEYS[1], '${NUMBER_FIELD}'), page[1], page[2]}
`

/** Removes the replica and its bookings. Published behind everything it has published before. */
const LEAVE = `${SEND}
redis.call('UNLINK', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
send(ARGV[2], '["leave"]')
return 1
`

export const SCRIPTS = {
  begin: script(BEGIN),
  publish: script(PUBLISH),
  heartbeat: script(HEARTBEAT),
  read: script(READ),
  leave: script(LEAVE),
} as const
