/** Exact limits per key: reservation of a request, its headers and its settlement. */
import { isLimited } from '../core/limits/key-limiter.ts'
import type { KeyLimits, LimitAnswer, LimitName, LimitState, RunningRequest } from '../core/limits/key-limits.ts'
import { Failure } from '../failure.ts'
import type { Limiter } from '../ports/limiter.ts'
import type { Timer, Timers } from '../ports/timers.ts'
import { hasTokenBudget } from './budgets.ts'
import type { Caller } from './auth/caller.ts'
import type { Ports } from '../ports.ts'

/** Output of a request that sets no limit of its own, in tokens. */
const DEFAULT_OUTPUT_TOKENS = 256

/** Tokens that a request may use. */
export interface RequestTokens {
  readonly promptTokens: number
  readonly sequences: number
  /** Limit of one answer in tokens. null: the request has none. */
  readonly outputLimit: number | null
}

interface LimitedRequest extends RequestTokens {
  readonly id: string
  readonly timers: Timers
}

/** A reserved request. */
export interface Permit {
  /** `x-ratelimit-*` headers of the response, flat. */
  readonly headers: readonly string[]
  /**
   * Call once, when the request has ended.
   * @param tokens tokens that it used; null: unknown, so the reservation stays
   */
  settle(tokens: number | null): Promise<void>
}

/** Budgets are charged elsewhere. */
export type RequestLimiter = Pick<Limiter, 'reserve' | 'settle' | 'renewal'>

interface LimiterParts {
  readonly ports: Pick<Ports, 'log'>
  readonly limiter: RequestLimiter
}

/** Whose requests are counted together: a key, or a team. */
interface Account {
  /** Name at the limiter. */
  readonly key: string
  /** For messages: `This key`. */
  readonly subject: string
  readonly limits: KeyLimits
}

/** Accounts of a caller that have limits: its key's, and its team's. The names of keys have no colon. */
const accountsOf = ({ tenant, limits, team }: LimitedCaller): readonly Account[] =>
  [
    { key: tenant, subject: 'This key', limits },
    ...(team === null ? [] : [{ key: `team:${team.name}`, subject: `The team ${team.name}`, limits: team.limits }]),
  ].filter((account) => isLimited(account.limits))

type LimitedCaller = Pick<Caller, 'tenant' | 'limits' | 'team'>

/** Whether a caller's requests are counted. */
export const hasLimits = ({ limits, team }: LimitedCaller): boolean =>
  isLimited(limits) || (team !== null && isLimited(team.limits))

/** Reserves a request in all accounts of its caller, or in none. null: none has limits. Rejects with `rate_limited`. */
export async function reserve(
  parts: LimiterParts,
  caller: LimitedCaller,
  request: LimitedRequest,
): Promise<Permit | null> {
  const permits: Permit[] = []
  try {
    for (const account of accountsOf(caller)) permits.push(await reserveIn(parts, account, request))
  } catch (error) {
    await settleAll(permits, 0)
    throw error
  }
  const [first] = permits
  if (first === undefined) return null
  // Of two limits the client sees those of its key.
  return { headers: first.headers, settle: (tokens) => settleAll(permits, tokens) }
}

async function settleAll(permits: readonly Permit[], tokens: number | null): Promise<void> {
  await Promise.all(permits.map((permit) => permit.settle(tokens)))
}

async function reserveIn({ ports, limiter }: LimiterParts, account: Account, request: LimitedRequest): Promise<Permit> {
  const { key, limits } = account
  const { id, timers } = request
  const answer = await limiter.reserve({ key, id, limits, tokens: estimateOf(request) })
  const headers = headersOf(answer)
  if (answer.exceeded === 'unavailable')
    throw new Failure(
      'state_unreachable',
      'The gateway cannot check the limits of this key at the moment. Try again shortly.',
      { retryAfterMs: answer.retryAfterMs },
    )
  if (answer.exceeded !== null) throw limitFailure(answer.exceeded, answer, { account, headers })
  const renewal = limits.concurrent === null ? null : startRenewal(limiter, { key, id }, timers)
  return {
    headers,
    async settle(tokens) {
      renewal?.cancel()
      try {
        await limiter.settle({ key, id, tokens })
      } catch (error) {
        ports.log.warn('key_limit_unsettled', { error, tenant: key })
      }
    },
  }
}

/** Renews the reservation until it is cancelled. null: the carrier needs no renewals. */
function startRenewal({ renewal }: RequestLimiter, running: RunningRequest, timers: Timers): Timer | null {
  if (renewal === undefined) return null
  let timer: Timer
  const wait = (): void => {
    timer = timers.set(renewal.everyMs, () => {
      // The next one may reach the carrier.
      renewal.renew(running).catch(() => {})
      wait()
    })
  }
  wait()
  return { cancel: () => timer.cancel() }
}

function estimateOf({ promptTokens, sequences, outputLimit }: LimitedRequest): number {
  return promptTokens + sequences * (outputLimit ?? DEFAULT_OUTPUT_TOKENS)
}

/** Whether the limits or budgets of a caller need the token counts of its streams. */
export const countsTokens = ({ limits, team, budgets }: LimitedCaller & Pick<Caller, 'budgets'>): boolean =>
  limitsTokens(limits) || (team !== null && limitsTokens(team.limits)) || hasTokenBudget({ budgets, team })

const limitsTokens = ({ tokensPerMin, tokensPerDay }: KeyLimits): boolean =>
  tokensPerMin !== null || tokensPerDay !== null

const RULES: Readonly<Record<LimitName, (limits: KeyLimits) => string>> = {
  requests_per_min: ({ requestsPerMin }) => `${requestsPerMin} requests per minute`,
  tokens_per_min: ({ tokensPerMin }) => `${tokensPerMin} tokens per minute`,
  tokens_per_day: ({ tokensPerDay }) => `${tokensPerDay} tokens per day (UTC)`,
  concurrent: ({ concurrent }) => `${concurrent} concurrent requests`,
}

function limitFailure(
  exceeded: LimitName,
  answer: LimitAnswer,
  { account, headers }: { readonly account: Account; readonly headers: readonly string[] },
): Failure {
  const pairs = headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1]!] as const] : []))
  return new Failure(
    'rate_limited',
    `${account.subject} has reached its limit of ${RULES[exceeded](account.limits)}. ` +
      `Try again in ${duration(answer.retryAfterMs)}.`,
    { retryAfterMs: Math.max(1, answer.retryAfterMs), headers: Object.fromEntries(pairs) },
  )
}

function headersOf({ requests, tokens }: LimitAnswer): string[] {
  return [...headersFor('requests', requests), ...headersFor('tokens', tokens)]
}

const headersFor = (of: string, state: LimitState | null): string[] =>
  state === null
    ? []
    : [
        `x-ratelimit-limit-${of}`,
        String(state.limit),
        `x-ratelimit-remaining-${of}`,
        String(state.remaining),
        `x-ratelimit-reset-${of}`,
        duration(state.resetMs),
      ]

/** A duration as OpenAI's headers have it: `250ms`, `12s`, `6m0s`. */
function duration(ms: number): string {
  if (ms < 1_000) return `${Math.ceil(ms)}ms`
  const seconds = Math.ceil(ms / 1_000)
  if (seconds < 60) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? `${minutes}m${seconds % 60}s` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds % 60}s`
}
