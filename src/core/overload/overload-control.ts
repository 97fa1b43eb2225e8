import type { Admission, RequestClass } from '../contract/admission.ts'
import type { Decision } from '../contract/decision.ts'
import type { SloConfig } from '../contract/pool-config.ts'
import type { Refusal } from '../contract/refusal.ts'
import { KeyShares } from './key-shares.ts'
import { PREFILL_WINDOW_MS } from './prefill-share.ts'
import type { Pressure } from './pressure.ts'
import { RefusalRate } from './refusal-rate.ts'

/** Wait on an engine, ms, up to which it counts as idle: a pool's objective refuses nothing there. */
const IDLE_WAIT_MS = 100

/** Excess of prefill, as a share of the budget, for which a request may move to another engine. */
const MOVE_SHARE = 0.5

/** Cost of a long prefill to each running stream of its engine, as a share of the prefill. */
const STREAM_COST = 0.2

/** Limit of the time between tokens for each class, as a share of the learned limit. */
const CLASS_CEILINGS: Readonly<Record<RequestClass, number>> = { critical: 1, standard: 1, sheddable: 0.7 }

/** Limit for keys above their share while others are active, as a share of the learned limit. */
const OVER_CEILING = 0.25

/** Share of the admitted requests that long prompts keep, relative to all, while most requests are admitted. */
const LONG_SHARE = 0.7

const MIN_ADMITTED = 0.75

/** Share of its own prefill that counts for a long prompt while long prompts have got less than their share. */
const OWED_PREFILL = 0.5

/** Maximum counted part of a prefill, ms: a longer one is admitted where there is room for this much. */
const MAX_PREFILL_MS = PREFILL_WINDOW_MS / 2

/** Minimum share of an engine's time that decodes are assumed to get. */
const MIN_DECODE_SHARE = 0.02

/** Weight of a second of decode in the work of a key: decodes share an engine, prefills do not. */
const DECODE_WEIGHT = 0.05

const DEFAULT_OUTPUT_TOKENS = 256

/** Time constant of refused work, ms. */
const REFUSED_MS = 30_000

const MIN_RETRY_MS = 250

const MAX_RETRY_MS = 60_000

/**
 * Prefills of the engine that the cost model must have learned from before a predicted wait refuses anything. Their
 * spread does not matter: errors of single prefills cancel out in the sum over a queue.
 */
const MIN_SAMPLES = 6

/** @testing */
export interface OverloadInput {
  readonly admission: Admission
  readonly decision: Decision
  /** Other engines for a whole placement, in the policy's order. Called only if the chosen engine has no room. */
  readonly alternatives: () => readonly string[]
  readonly slo: SloConfig | null
  /** Maximum requests without a first token per engine. */
  readonly maxWaiting: number
  readonly engines: number
  readonly pressure: (engine: string) => Pressure | null
  /** Called for an engine whose step limit refused or moved the request. */
  readonly limited: (engine: string) => void
  readonly now: number
  /** Time that the request has waited for room, ms. Absent: this is its first check. */
  readonly waitedMs?: number | undefined
}

type Limit = NonNullable<Refusal['limit']>

interface Move {
  readonly kind: 'move'
  readonly engine: string
  readonly pressure: Pressure
}

/** @testing */
export type Verdict = { readonly kind: 'admit' } | Move | { readonly kind: 'refuse'; readonly refusal: Refusal }

const ADMIT: Verdict = { kind: 'admit' }

/**
 * Decides whether a placed request is admitted. A request is refused if its first token would be late because of
 * waiting, if its client's own deadline cannot be met, or if it would lengthen the time between tokens of its engine
 * beyond the learned limit. It checks the engine that the policy chose, and moves a request only where little cached
 * work is lost: refusing or moving the first turns of sessions leaves later turns without cache.
 */
export class OverloadControl {
  /** Rate of all refusals for lack of room. */
  readonly refusals = new RefusalRate()
  readonly #random: () => number
  readonly #keys = new KeyShares()
  /** Decayed work of refused requests, and that of the last one. */
  #refused = { workS: 0, at: 0, lastS: 0 }
  /** Admitted shares of all requests and of long prompts. */
  readonly #admitted = new AdmittedShare(0.01)
  readonly #longAdmitted = new AdmittedShare(0.05)
  /** Mean duration of responses, ms. */
  #answerMs = 10_000

  constructor(random: () => number) {
    this.#random = random
  }

  judge(input: OverloadInput): Verdict {
    const { admission, decision, slo } = input
    const { placement } = decision
    const prefiller = placement.kind === 'whole' ? placement.engine : (placement.prefill ?? placement.decode)
    const decoder = placement.kind === 'whole' ? placement.engine : placement.decode
    const prefill = input.pressure(prefiller)
    const decode = prefiller === decoder ? prefill : input.pressure(decoder)
    if (prefill === null || decode === null) return ADMIT
    const verdict = this.#verdict(input, prefill, decode)
    if (slo !== null && admission.attempt === 0 && input.waitedMs === undefined) {
      const isAdmitted = verdict.kind !== 'refuse'
      this.#admitted.add(isAdmitted)
      if (isLong(prefill, slo, admission)) this.#longAdmitted.add(isAdmitted)
    }
    return verdict
  }

  #verdict(input: OverloadInput, prefill: Pressure, decode: Pressure): Verdict {
    const { placement } = input.decision
    const limit = this.#limitOf(input, prefill, decode)
    if (limit === null) return ADMIT
    if (limit === 'itl') input.limited(placement.kind === 'whole' ? placement.engine : placement.decode)
    const moved = placement.kind === 'whole' ? this.#elsewhere(input, prefill) : null
    return moved ?? this.#refuse(input, limit, prefill)
  }

  /** Charges the work of an admitted request to its key. */
  charge(
    { tenant, expectedOutputTokens, keyWeight = 1 }: Admission,
    { prefillMs, stepMs }: Pressure,
    now: number,
  ): void {
    const output = expectedOutputTokens ?? DEFAULT_OUTPUT_TOKENS
    const workS = (prefillMs + DECODE_WEIGHT * output * stepMs) / 1000
    this.#keys.charge(tenant, workS, now, keyWeight)
  }

  /** Records requests that edges refused in place of the pool. Their work is assumed to be that of the last refusal. */
  refusedByEdges(requests: number, now: number): void {
    this.refusals.add(requests, now)
    const { lastS } = this.#refused
    this.#refused = { workS: this.#refusedWorkS(now) + requests * lastS, at: now, lastS }
  }

  #refusedWorkS(now: number): number {
    const { workS, at } = this.#refused
    return workS * Math.exp(-Math.max(0, now - at) / REFUSED_MS)
  }

  /** Records the duration of a complete response. */
  answered(durationMs: number): void {
    this.#answerMs += 0.05 * (durationMs - this.#answerMs)
  }

  /** The first limit that the request exceeds. null: none. */
  #limitOf(
    { admission, slo, maxWaiting, now, waitedMs = 0 }: OverloadInput,
    prefill: Pressure,
    decode: Pressure,
  ): Limit | null {
    const { ttftDeadlineMs, requestClass = 'standard', tenant } = admission
    const ttftMs = ttftOf(prefill)
    if (ttftDeadlineMs !== undefined && (ttftDeadlineMs <= 0 || ttftMs > ttftDeadlineMs)) return 'deadline'
    // A retry was admitted before.
    if (admission.attempt > 0) return null
    if (prefill.waiting >= maxWaiting) return 'waiting'
    if (slo === null) return null
    const ceiling = CLASS_CEILINGS[requestClass] * (this.#keys.isOver(tenant, now) ? OVER_CEILING : 1)
    const isOwed = this.#owesLong && isLong(prefill, slo, admission)
    // A prefill on another engine delays no decode of this one.
    const ownMs = prefill === decode ? (isOwed ? OWED_PREFILL : 1) * Math.min(MAX_PREFILL_MS, prefill.prefillMs) : 0
    // An engine without requests always admits one.
    if (decode.requests > 0) {
      if (slo.ttftMs !== null && decode.memoryShare > ceiling) return 'memory'
      if (tokenMs(decode, ownMs) > decode.stepLimitMs * ceiling) return 'itl'
    }
    // Lateness is measured; the rest of the wait is an estimate that may be no more than a prior.
    const waitMs = prefill.overdueMs + (prefill.samples >= MIN_SAMPLES ? prefill.waitMs : 0)
    const lateMs = (waitedMs + waitMs) / ceiling + prefill.prefillMs
    return waitMs > IDLE_WAIT_MS && lateMs > budgetOf(slo, admission) ? 'ttft' : null
  }

  /** Long prompts have got less than their share, although most requests are admitted. */
  get #owesLong(): boolean {
    const all = this.#admitted.share
    return all >= MIN_ADMITTED && this.#longAdmitted.share < LONG_SHARE * all
  }

  /** The engine to which a request moves. null: none. */
  #elsewhere(input: OverloadInput, chosen: Pressure): Verdict | null {
    const { admission, slo } = input
    if (slo !== null && isLong(chosen, slo, admission)) return this.#leastDisturbed(input, chosen)
    const budgetMs = admission.ttftDeadlineMs ?? (slo === null ? Infinity : budgetOf(slo, admission))
    // Elsewhere its cached prefix would be computed again, and that of others evicted.
    const maxPrefillMs = chosen.prefillMs + (budgetMs === Infinity ? 0 : MOVE_SHARE * budgetMs)
    let best: Move | null = null
    for (const engine of input.alternatives()) {
      const pressure = input.pressure(engine)
      if (pressure === null || pressure.prefillMs > maxPrefillMs) continue
      if (best !== null && ttftOf(pressure) >= ttftOf(best.pressure)) continue
      if (this.#limitOf(input, pressure, pressure) === null) best = { kind: 'move', engine, pressure }
    }
    return best
  }

  /** For a long prompt: the engine where it costs its own client and the running streams least, if it has room. */
  #leastDisturbed(input: OverloadInput, chosen: Pressure): Verdict | null {
    let best: Move | null = null
    for (const engine of input.alternatives()) {
      const pressure = input.pressure(engine)
      if (pressure !== null && disturbanceMs(pressure) < disturbanceMs(best?.pressure ?? chosen))
        best = { kind: 'move', engine, pressure }
    }
    return best !== null && this.#limitOf(input, best.pressure, best.pressure) === null ? best : null
  }

  #refuse(input: OverloadInput, limit: Limit, chosen: Pressure): Verdict {
    const { admission, slo, engines, now, waitedMs } = input
    const budgetMs = admission.ttftDeadlineMs ?? (slo === null ? 0 : budgetOf(slo, admission))
    const soonestMs =
      limit === 'ttft' || limit === 'deadline'
        ? ttftOf(chosen) - budgetMs
        : this.#answerMs / Math.max(1, chosen.requests)
    const workS = this.#refusedWorkS(now)
    const ownS = chosen.prefillMs / 1000
    if (waitedMs === undefined) this.#refused = { workS: workS + ownS, at: now, lastS: ownS }
    // Earlier refusals come back too: their work is spread over the time that the engines need for it.
    const backlogMs = (1000 * workS) / Math.max(1, engines)
    const retryMs = Math.min(MAX_RETRY_MS, Math.max(MIN_RETRY_MS, soonestMs + backlogMs))
    return {
      kind: 'refuse',
      refusal: {
        reason: 'overloaded',
        limit,
        detail: DETAILS[limit],
        retryAfterMs: Math.round(retryMs * (1 + 0.5 * this.#random())),
      },
    }
  }
}

const DETAILS: Readonly<Record<Limit, string>> = {
  ttft: 'waiting would make the first token later than the objective of the pool',
  deadline: 'the deadline of the request cannot be met',
  itl: 'the request would slow down running streams beyond the objective of the pool',
  memory: 'the KV cache has no room for the request',
  waiting: 'too many requests wait for their first token',
  queue: 'the queue of the pool is full',
}

/** Exponential mean of admitted requests. */
class AdmittedShare {
  readonly #gain: number
  share = 1

  constructor(gain: number) {
    this.#gain = gain
  }

  add(isAdmitted: boolean): void {
    this.share += this.#gain * (Number(isAdmitted) - this.share)
  }
}

/** Milliseconds that a prompt costs its own client and the running streams. */
const disturbanceMs = ({ waitMs, prefillMs, requests }: Pressure): number =>
  waitMs + prefillMs * (1 + STREAM_COST * requests)

const ttftOf = ({ overdueMs, waitMs, prefillMs }: Pressure): number => overdueMs + waitMs + prefillMs

/** Predicted time between the tokens of the engine's streams with a further prefill. */
function tokenMs({ stepMs, prefillShare }: Pressure, prefillMs: number): number {
  return stepMs / Math.max(MIN_DECODE_SHARE, 1 - prefillShare - prefillMs / PREFILL_WINDOW_MS)
}

/** Whether the prefill alone takes longer than the objective, so that the request is late on an idle engine too. */
const isLong = ({ prefillMs }: Pressure, slo: SloConfig, admission: Admission): boolean =>
  prefillMs > budgetOf(slo, admission)

/** Longest wait after which the first token can still meet the objective, ms. Infinity: unknown, or no limit. */
export const longestWaitMs = (slo: SloConfig, admission: Admission, { prefillMs, samples }: Pressure): number =>
  samples < MIN_SAMPLES ? Infinity : budgetOf(slo, admission) - prefillMs

/** Time to the first token that the objective allows, ms. */
function budgetOf({ ttftMs, ttftMsPer1kTokens }: SloConfig, { promptTokens }: Admission): number {
  if (ttftMs === null) return Infinity
  return ttftMs + ((ttftMsPer1kTokens ?? 0) * promptTokens) / 1000
}
