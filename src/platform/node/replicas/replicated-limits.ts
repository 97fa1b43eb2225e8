/** Limits per key, counted on the server for all replicas. */
import { type BudgetCharge, type BudgetUse, monthOf } from '../../../core/budgets/budget.ts'
import { dayOf } from '../../../core/utc-day.ts'
import { costOf } from '../../../core/limits/key-limiter.ts'
import type {
  KeyLimits,
  LimitAnswer,
  LimitName,
  LimitState,
  LimitedRequest,
  Settlement,
} from '../../../core/limits/key-limits.ts'
import type { LimitShare } from '../../../core/limits/limit-share.ts'
import type { Limiter } from '../../../ports/limiter.ts'
import type { Connection } from './connection.ts'
import { CLOCK, script } from './scripts.ts'

/**
 * Limits of one key (`KeyLimiter` in Lua, by the server's clock). KEYS: 1 hash with `r<second>` requests and
 * `t<second>` tokens of the last 61 seconds, their sums `r` and `t`, and the tokens of the day; 2 sorted set of running
 * requests with the time at which they lapse. ARGV 1: the time in ms, for tests; else empty.
 *
 * Only the seconds that have left since the last change are read, because a scan of all would cost some 200 µs.
 */
const USE = `${CLOCK}
ms = tonumber(ARGV[1]) or ms
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
const RESERVE = script(`${USE}
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
`)

/** Ends a request. ARGV: 2 id, 3 reserved tokens, 4 time of the reservation, 5 used tokens; -1: unknown. */
const SETTLE = script(`${USE}
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
`)

/** Renews running requests, also those that the server has lost. ARGV: 1 empty, 2 lease in ms, then ids. */
const RENEW = script(`${CLOCK}
local lapse = string.format('%.0f', ms + ARGV[2])
for at = 3, #ARGV do redis.call('ZADD', KEYS[1], lapse, ARGV[at]) end
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2])
return 1
`)

/**
 * Adds amounts to a budget. KEYS: 1 hash. ARGV: day, month, tokens, engine seconds, money. A period that has begun
 * replaces the one before it; a gateway whose clock is late adds to it. Returns day, month and both uses.
 */
const CHARGE = script(`
local found = {}
for at, period in ipairs({'day', 'month'}) do
  local id = tonumber(ARGV[at])
  local before = tonumber(redis.call('HGET', KEYS[1], period) or -1)
  if id > before then redis.call('HSET', KEYS[1], period, id, period .. 1, 0, period .. 2, 0, period .. 3, 0) end
  found[#found + 1] = tostring(math.max(id, before))
  for unit = 1, 3 do
    found[#found + 1] = redis.call('HINCRBYFLOAT', KEYS[1], period .. unit, ARGV[2 + unit])
  end
end
redis.call('PEXPIRE', KEYS[1], 3456000000)
return found
`)

/** By the number that the script returns. */
const EXCEEDED: readonly (LimitName | null)[] = [
  null,
  'concurrent',
  'requests_per_min',
  'tokens_per_min',
  'tokens_per_day',
]
/** Requests renewed by one command. */
const RENEWED_IDS = 500

interface ReplicatedLimitsParts {
  readonly connection: Pick<Connection, 'run'>
  readonly prefix: string
  /** Requests of a gateway that has ended lapse after this time, ms. */
  readonly leaseMs: number
  readonly rejected: (error: Error) => void
  /** Milliseconds since the epoch, as `lostAt`. */
  readonly clock?: () => number
  /** For tests: milliseconds since the epoch instead of the server's clock. */
  readonly now?: () => number
}

interface ReservedRequest {
  readonly key: string
  readonly cost: number
  /** By the server's clock, ms. */
  readonly at: number
}

export class ReplicatedLimits implements Limiter {
  readonly #parts: ReplicatedLimitsParts
  readonly #reserved = new Map<string, ReservedRequest>()
  #share: LimitShare | null = null
  #lostAt = -Infinity
  #isLost = false

  constructor(parts: ReplicatedLimitsParts) {
    this.#parts = parts
  }

  /** When the server was last unreachable; -Infinity: never since the first connection. */
  get lostAt(): number {
    return this.#isLost ? (this.#parts.clock ?? Date.now)() : this.#lostAt
  }

  /** Share of this replica in limits while the server is unreachable. */
  get share(): LimitShare {
    return this.#share ?? { count: 1, index: 0 }
  }

  /** The server has answered; these replicas use it. */
  present(replicas: readonly string[], own: string): void {
    this.#share = { count: replicas.length, index: replicas.toSorted().indexOf(own) }
  }

  connected(): void {
    this.#lostAt = this.lostAt
    this.#isLost = false
  }

  disconnected(): void {
    this.#isLost = this.#share !== null
  }

  /** Rejects if the server does not answer, or answers with an error. */
  async reserve({ key, id, limits, tokens }: LimitedRequest): Promise<LimitAnswer> {
    const cost = costOf(limits, tokens)
    const { requestsPerMin, tokensPerMin, tokensPerDay, concurrent } = limits
    const given = [requestsPerMin, tokensPerMin, tokensPerDay, concurrent].map((limit) => limit ?? -1)
    const answer = await this.#parts.connection.run(RESERVE, keysOf(this.#parts.prefix, key), [
      this.#now,
      id,
      ...[cost, this.#parts.leaseMs, ...given].map(String),
    ])
    const [exceeded = 0, retryAfterMs = 0, at = 0, ...states] = (answer as readonly (number | string)[]).map(Number)
    if (exceeded === 0 && !this.#reserved.has(id)) this.#reserved.set(id, { key, cost, at })
    return { exceeded: EXCEEDED[exceeded]!, retryAfterMs, ...statesOf(limits, states) }
  }

  /** Rejects if the server does not answer. Days and months are those of this gateway's clock. */
  async charge({ key, tokens, engineS, money }: BudgetCharge): Promise<BudgetUse> {
    const now = (this.#parts.now ?? this.#parts.clock ?? Date.now)()
    const given = [dayOf(now), monthOf(now), tokens, engineS, money].map(String)
    const answer = await this.#parts.connection.run(CHARGE, [budgetOf(this.#parts.prefix, key)], given)
    const [day, ...rest] = (answer as readonly (number | string)[]).map(Number)
    const amounts = (at: number) => ({ tokens: rest[at]!, engineS: rest[at + 1]!, money: rest[at + 2]! })
    return { day: day!, month: rest[3]!, ofDay: amounts(0), ofMonth: amounts(4) }
  }

  /** Without the server the request lapses there, and its tokens stay at the estimate. */
  settle({ id, tokens }: Settlement): void {
    const reserved = this.#reserved.get(id)
    if (reserved === undefined) return
    this.#reserved.delete(id)
    const given = [this.#now, id, String(reserved.cost), String(reserved.at), String(tokens ?? -1)]
    void this.#parts.connection.run(SETTLE, keysOf(this.#parts.prefix, reserved.key), given).catch(this.#parts.rejected)
  }

  /** The next renewal adds it. Its tokens count at its end. */
  adopt({ key, id }: LimitedRequest): void {
    if (!this.#reserved.has(id)) this.#reserved.set(id, { key, cost: 0, at: 0 })
  }

  /** Renews the lease of all running requests. Never rejects. */
  async renew(): Promise<void> {
    const byKey = new Map<string, string[]>()
    for (const [id, { key }] of this.#reserved) byKey.set(key, [...(byKey.get(key) ?? []), id])
    for (const [key, all] of byKey)
      for (let from = 0; from < all.length; from += RENEWED_IDS) {
        // A request that has ended meanwhile must not come back.
        const ids = all.slice(from, from + RENEWED_IDS).filter((id) => this.#reserved.has(id))
        if (ids.length === 0) continue
        const [, running] = keysOf(this.#parts.prefix, key)
        await this.#parts.connection
          .run(RENEW, [running], ['', String(this.#parts.leaseMs), ...ids])
          .catch(this.#parts.rejected)
      }
  }

  get #now(): string {
    return String(this.#parts.now?.() ?? '')
  }
}

const keysOf = (prefix: string, key: string): [use: string, running: string] => {
  const tag = `${prefix}:{limit/${encodeURIComponent(key)}}`
  return [`${tag}:use`, `${tag}:running`]
}

const budgetOf = (prefix: string, key: string): string => `${prefix}:{limit/${encodeURIComponent(key)}}:budget`

const stateOf = (limit: number | null, used: number, resetMs: number): LimitState | null =>
  limit === null ? null : { limit, remaining: Math.max(0, limit - used), resetMs }

function statesOf(
  { requestsPerMin, tokensPerMin }: KeyLimits,
  [requests = 0, requestsMs = 0, tokens = 0, tokensMs = 0]: readonly number[],
): Pick<LimitAnswer, 'requests' | 'tokens'> {
  return { requests: stateOf(requestsPerMin, requests, requestsMs), tokens: stateOf(tokensPerMin, tokens, tokensMs) }
}
