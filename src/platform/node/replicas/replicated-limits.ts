/** Limits per key, counted on the server for all replicas. */
import {
  costOf,
  type KeyLimits,
  type LimitAnswer,
  type LimitName,
  type LimitState,
  type Reservation,
  type Settlement,
} from '../../../core/limits/key-limiter.ts'
import type { Limiter } from '../../../ports.ts'
import { isReply, type Link } from './connection.ts'
import type { ScriptName } from './scripts.ts'

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

export interface ReplicatedLimitsParts {
  readonly link: Pick<Link, 'run'>
  readonly prefix: string
  /** Requests of a gateway that has ended lapse after this time, ms. */
  readonly leaseMs: number
  readonly rejected: (error: Error) => void
  /** For tests: milliseconds since the epoch instead of the server's clock. */
  readonly now?: () => number
}

interface Open {
  readonly key: string
  readonly cost: number
  /** By the server's clock, ms. */
  readonly at: number
}

export class ReplicatedLimits implements Limiter {
  readonly #parts: ReplicatedLimitsParts
  readonly #open = new Map<string, Open>()

  constructor(parts: ReplicatedLimitsParts) {
    this.#parts = parts
  }

  /** Rejects if the server does not answer, or answers with an error. */
  async reserve({ key, id, limits, tokens }: Reservation): Promise<LimitAnswer> {
    const cost = costOf(limits, tokens)
    const { requestsPerMin, tokensPerMin, tokensPerDay, concurrent } = limits
    const given = [requestsPerMin, tokensPerMin, tokensPerDay, concurrent].map((limit) => limit ?? -1)
    const answer = await this.#run('reserve', keysOf(this.#parts.prefix, key), [
      this.#now,
      id,
      ...[cost, this.#parts.leaseMs, ...given].map(String),
    ])
    const [exceeded = 0, retryAfterMs = 0, at = 0, ...states] = (answer as readonly (number | string)[]).map(Number)
    if (exceeded === 0 && !this.#open.has(id)) this.#open.set(id, { key, cost, at })
    return { exceeded: EXCEEDED[exceeded]!, retryAfterMs, ...statesOf(limits, states) }
  }

  /** Without the server the request lapses there, and its tokens stay at the estimate. */
  settle({ id, tokens }: Settlement): void {
    const open = this.#open.get(id)
    if (open === undefined) return
    this.#open.delete(id)
    const given = [this.#now, id, String(open.cost), String(open.at), String(tokens ?? -1)]
    void this.#run('settle', keysOf(this.#parts.prefix, open.key), given).catch(this.#parts.rejected)
  }

  /** The next renewal adds it. Its tokens count at its end. */
  adopt({ key, id }: Reservation): void {
    if (!this.#open.has(id)) this.#open.set(id, { key, cost: 0, at: 0 })
  }

  /** Renews the lease of all running requests. Never rejects. */
  async renew(): Promise<void> {
    const byKey = new Map<string, string[]>()
    for (const [id, { key }] of this.#open) byKey.set(key, [...(byKey.get(key) ?? []), id])
    for (const [key, all] of byKey)
      for (let from = 0; from < all.length; from += RENEWED_IDS) {
        // A request that has ended meanwhile must not come back.
        const ids = all.slice(from, from + RENEWED_IDS).filter((id) => this.#open.has(id))
        if (ids.length === 0) continue
        const [, running] = keysOf(this.#parts.prefix, key)
        await this.#run('renew', [running], ['', String(this.#parts.leaseMs), ...ids]).catch(this.#parts.rejected)
      }
  }

  get #now(): string {
    return String(this.#parts.now?.() ?? '')
  }

  /** A node that does not have the script has changed nothing, and gets it in full. */
  #run(name: ScriptName, keys: string[], given: string[]): Promise<unknown> {
    const script = { keys, arguments: given }
    return this.#parts.link.run(name, 'limits', script).catch((error: Error) => {
      if (!isReply(error) || !error.message.startsWith('NOSCRIPT')) throw error
      return this.#parts.link.run(name, null, script)
    })
  }
}

const keysOf = (prefix: string, key: string): [use: string, running: string] => {
  const tag = `${prefix}:{limit/${encodeURIComponent(key)}}`
  return [`${tag}:use`, `${tag}:running`]
}

const stateOf = (limit: number | null, used: number, resetMs: number): LimitState | null =>
  limit === null ? null : { limit, remaining: Math.max(0, limit - used), resetMs }

function statesOf(
  { requestsPerMin, tokensPerMin }: KeyLimits,
  [requests = 0, requestsMs = 0, tokens = 0, tokensMs = 0]: readonly number[],
): Pick<LimitAnswer, 'requests' | 'tokens'> {
  return { requests: stateOf(requestsPerMin, requests, requestsMs), tokens: stateOf(tokensPerMin, tokens, tokensMs) }
}
