import { Arrivals } from '../capacity/arrivals.ts'
import type { Admission } from '../contract/admission.ts'
import type { Decision } from '../contract/decision.ts'
import type { SloConfig } from '../contract/pool-config.ts'
import type { Refusal } from '../contract/refusal.ts'
import { noObjective, Objective, type ObjectiveChecks } from './objective.ts'
import type { Pressure } from './pressure.ts'
import { RefusalRate } from './refusal-rate.ts'

/** Excess of prefill, as a share of the budget, for which a request may move to another engine. */
const MOVE_SHARE = 0.5

/** Cost of a long prefill to each running stream of its engine, as a share of the prefill. */
const STREAM_COST = 0.2

/** Time constant of refused work, ms. */
const REFUSED_MS = 30_000

const MIN_RETRY_MS = 250

const MAX_RETRY_MS = 60_000

/** @testing */
export interface OverloadInput {
  readonly admission: Admission
  readonly decision: Decision
  /** Other engines for a whole placement, in the policy's order. Called only if the chosen engine has no room. */
  readonly alternatives: () => readonly string[]
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
  objective: ObjectiveChecks = noObjective
  /** Arrivals, for the capacity of the pool. null: it has no objective. */
  arrivals: Arrivals | null = null
  /** Decayed work of refused requests, and that of the last one. */
  #refused = { workS: 0, at: 0, lastS: 0 }
  /** Mean duration of responses, ms. */
  #answerMs = 10_000

  constructor(random: () => number) {
    this.#random = random
  }

  configure(slo: SloConfig | null, now: number): void {
    if (slo === null) this.arrivals = null
    else {
      this.arrivals ??= new Arrivals(slo, now)
      this.arrivals.slo = slo
    }
    // Requests counted so far stay counted when the values of an objective change.
    if (slo === null) this.objective = noObjective
    else if (this.objective instanceof Objective) this.objective.slo = slo
    else this.objective = new Objective(slo)
  }

  judge(input: OverloadInput): Verdict {
    const { placement } = input.decision
    const prefiller = placement.kind === 'whole' ? placement.engine : (placement.prefill ?? placement.decode)
    const decoder = placement.kind === 'whole' ? placement.engine : placement.decode
    const prefill = input.pressure(prefiller)
    const decode = prefiller === decoder ? prefill : input.pressure(decoder)
    if (prefill === null || decode === null) return ADMIT
    const verdict = this.#verdict(input, prefill, decode)
    const charged = verdict.kind === 'admit' ? decode : verdict.kind === 'move' ? verdict.pressure : null
    this.objective.judged(input, { prefill, charged })
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

  /** Counts a refusal, and adds the rate to one that edges may repeat. */
  rated<Placed extends object>(
    answer: Placed | { readonly refusal: Refusal },
    admission: Admission,
    now: number,
  ): Placed | { readonly refusal: Refusal } {
    return this.refusals.rated('refusal' in answer ? this.missed(answer, admission, now) : answer, admission, now)
  }

  /** Counts a request that is refused as an arrival. */
  missed(answer: { readonly refusal: Refusal }, admission: Admission, now: number): { readonly refusal: Refusal } {
    this.arrivals?.refused(answer.refusal, admission, now)
    return answer
  }

  /** Records requests that edges refused in place of the pool. Their work is assumed to be that of the last refusal. */
  refusedByEdges(requests: number, now: number): void {
    this.refusals.add(requests, now)
    this.arrivals?.add(requests, now)
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
  #limitOf(input: OverloadInput, prefill: Pressure, decode: Pressure): Limit | null {
    const { ttftDeadlineMs, attempt } = input.admission
    if (ttftDeadlineMs !== undefined && (ttftDeadlineMs <= 0 || ttftOf(prefill) > ttftDeadlineMs)) return 'deadline'
    // A retry was admitted before.
    if (attempt > 0) return null
    if (prefill.waiting >= input.maxWaiting) return 'waiting'
    return this.objective.limitOf(input, prefill, decode)
  }

  /** The engine to which a request moves. null: none. */
  #elsewhere(input: OverloadInput, chosen: Pressure): Verdict | null {
    const { admission } = input
    if (this.objective.isLong(admission, chosen)) return this.#leastDisturbed(input, chosen)
    const budgetMs = admission.ttftDeadlineMs ?? this.objective.budgetMs(admission) ?? Infinity
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
    const { admission, engines, now, waitedMs } = input
    const budgetMs = admission.ttftDeadlineMs ?? this.objective.budgetMs(admission) ?? 0
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

/** Milliseconds that a prompt costs its own client and the running streams. */
const disturbanceMs = ({ waitMs, prefillMs, requests }: Pressure): number =>
  waitMs + prefillMs * (1 + STREAM_COST * requests)

const ttftOf = ({ overdueMs, waitMs, prefillMs }: Pressure): number => overdueMs + waitMs + prefillMs
