import type { Decision } from '../contract/decision.ts'
import { type Circuit, closed } from '../pool/pool-engines/circuit.ts'
import { PoolState } from '../pool/pool-state.ts'
import type { Random } from '../routing/policy.ts'
import type { RegionReport, RegionShare, SharedCircuit } from './sync.ts'

/** Changed decisions that wait for a sync. */
const DECISIONS_WAITING = 200

/** A report repeats the history of so long, ms: reports may be lost, or wait for the next request. */
const HISTORY_SENT_MS = 60_000

interface RegionLedgerParts {
  readonly cluster: string
  readonly pool: string
  /** Id of the region's gateway, the only engine of the pool. */
  readonly engine: string
  readonly random: Random
  readonly epoch: string
}

/** Ledger of one isolate for a pool of a region: a pool state, and what the other isolates have to know of it. */
export class RegionLedger {
  readonly state: PoolState
  readonly #parts: RegionLedgerParts
  /** Circuit after the last own request or the last answer. */
  #circuit: Circuit = closed
  #changes = 0
  #changedDecisions = new Set<string>()

  constructor(parts: RegionLedgerParts) {
    this.#parts = parts
    this.state = new PoolState(parts)
  }

  /**
   * Records that a request may have changed the state. true: it changed the circuit.
   * @param decision booking key of the request
   */
  touched(decision: string | null): boolean {
    if (decision !== null) {
      this.#changedDecisions.delete(decision)
      this.#changedDecisions.add(decision)
      if (this.#changedDecisions.size > DECISIONS_WAITING)
        this.#changedDecisions.delete(this.#changedDecisions.values().next().value!)
    }
    const now = this.#current()
    const isChanged = now.state !== this.#circuit.state || openedAt(now) !== openedAt(this.#circuit)
    this.#circuit = now
    if (isChanged) this.#changes += 1
    return isChanged
  }

  report(now: number): RegionReport {
    const { cluster, pool } = this.#parts
    const { digest, history } = this.state.summary(0, now - HISTORY_SENT_MS, now)
    return {
      cluster,
      pool,
      digest,
      ...(history === undefined ? {} : { history }),
      circuit: toShared(this.#current(), now),
      changes: this.#changes,
      recent: this.state.recentRequests(now),
    }
  }

  /** Returns the decisions that changed since the last call. */
  takeDecisions(): Decision[] {
    const keys = [...this.#changedDecisions]
    this.#changedDecisions.clear()
    return keys.flatMap((key) => this.state.explain(key) ?? [])
  }

  /** Applies what all isolates share. */
  follow({ draining, circuit, acknowledged, fraction, elsewhere }: RegionShare, now: number): void {
    const { engine } = this.#parts
    const own = this.#current()
    // The result of an own trial, and a change that the answer does not include, are newer.
    const isOlder = acknowledged !== this.#changes || own.state === 'half_open'
    const isNews = circuit !== null && !isOlder && !(circuit.state === 'closed' && own.state === 'closed')
    this.state.follow(engine, {
      share: { fraction, elsewhere },
      ...(isNews ? { circuit: fromShared(circuit, own, now) } : {}),
    })
    this.state.observe([{ kind: 'drain', engine, draining }], now)
    this.#circuit = this.#current()
  }

  #current(): Circuit {
    return this.state.circuitOf(this.#parts.engine) ?? closed
  }
}

const openedAt = (circuit: Circuit): number | null => (circuit.state === 'closed' ? null : circuit.openedAt)

function toShared(circuit: Circuit, now: number): SharedCircuit {
  if (circuit.state === 'closed') return { state: 'closed', leftMs: 0, openings: 0 }
  const { state, untilMs, openings, isHung } = circuit
  const leftMs = state === 'open' ? Math.max(0, untilMs - now) : 0
  return { state, leftMs, openings, ...(isHung === true ? { isHung } : {}) }
}

function fromShared({ state, leftMs, openings, isHung }: SharedCircuit, own: Circuit, now: number): Circuit {
  if (state === 'closed') return closed
  return {
    state: 'open',
    by: own.by,
    openedAt: openedAt(own) ?? now,
    untilMs: now + leftMs,
    openings,
    ...(isHung === true ? { isHung } : {}),
  }
}
