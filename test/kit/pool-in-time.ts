import type { Admission } from '../../src/core/contract/admission.ts'
import { endedAs } from '../../src/core/contract/outcome.ts'
import { servingEngine } from '../../src/core/contract/placement.ts'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import type { Condition } from '../../src/core/contract/pool-digest.ts'
import type { PoolEvent } from '../../src/core/pool/pool-events.ts'
import { PoolState } from '../../src/core/pool/pool-state.ts'
import { admission, engines, failed, outcome, pool } from './pool-fixtures.ts'

/** Time to first token of its engines, ms. */
export const TTFT_MS = 200

/** A pool in virtual time, whose engines answer after `TTFT_MS`, until they stop. */
export class PoolInTime {
  now = 1_000_000
  readonly state = new PoolState({ random: () => 0.5, epoch: 'e' })
  readonly stopped = new Set<string>()
  /** Events so far. */
  readonly raised: PoolEvent[] = []
  readonly #waiting = new Map<string, string>()
  /** Whether engines that move answer trials. */
  answersTrials = true

  constructor(names: readonly string[] = ['a', 'b', 'c'], changes: Partial<PoolConfig> = {}) {
    const policy = { name: 'round_robin', options: {} }
    this.state.configure(1, pool({ policy, engines: engines(...names), ...changes }), this.now)
  }

  /** Places a request; its engine answers it at once in virtual time, unless it has stopped. */
  send(changes: Partial<Admission> = {}): string | null {
    const admitted = this.state.admit(admission({ isLastResort: true, ...changes }), this.now)
    if ('refusal' in admitted) return null
    const engine = servingEngine(admitted.placement)
    if (this.stopped.has(engine)) {
      this.#waiting.set(admitted.key, engine)
      return engine
    }
    this.state.firstToken(admitted.key, { ttft: TTFT_MS }, this.now + TTFT_MS)
    this.state.release(admitted.key, outcome(), this.now + TTFT_MS + 1)
    return engine
  }

  /** A stream that got its first tokens; its engine sends the rest never. */
  begin(engine: string, changes: Partial<Admission> = {}): string {
    const avoid = ['a', 'b', 'c'].filter((id) => id !== engine)
    const admitted = this.state.admit(
      admission({ isLastResort: true, streams: true, reportsOutput: true, avoid, ...changes }),
      this.now,
    )
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    this.state.firstToken(admitted.key, { ttft: TTFT_MS }, this.now + TTFT_MS)
    return admitted.key
  }

  /** Lets time pass in steps, as hosts watch a pool, and answers its trials. */
  pass(ms: number, stepMs = 100): void {
    for (const end = this.now + ms; this.now < end;) {
      this.now += stepMs
      const { trials, events } = this.state.watch(this.now)
      this.raised.push(...events)
      for (const { engine } of trials) {
        const result = this.stopped.has(engine) ? 'failed' : 'passed'
        if (this.answersTrials) this.state.observe([{ kind: 'trial', engine, sentAt: this.now, result }], this.now)
      }
    }
  }

  /** Clients leave, from all requests that wait. */
  leaveAll(): void {
    for (const key of this.#waiting.keys()) this.state.release(key, endedAs('client_gone'), this.now)
    this.#waiting.clear()
  }

  /** All requests that wait get no first byte in time. */
  timeOutAll(): void {
    for (const key of this.#waiting.keys()) {
      const attempt = { ...failed, failure: 'first_byte_timeout', status: null } as const
      this.state.release(key, attempt, this.now)
    }
    this.#waiting.clear()
  }

  conditions(): Record<string, Condition | undefined> {
    return Object.fromEntries(this.state.digest(this.now).engines.map(({ id, condition }) => [id, condition]))
  }

  learn(): void {
    for (let at = 0; at < 30; at++) {
      this.send()
      this.pass(300)
    }
  }
}
