import { RpcTarget } from 'cloudflare:workers'
import type { EarlyPart, LegDone } from '../src/core/cluster/books.ts'
import type { Outcome, StageTimes, Usage } from '../src/core/cluster/contract.ts'
import type { Held } from '../src/core/cluster/cluster-state.ts'

/** What a lease may ask of its object. */
export interface LeaseHost {
  legDone(key: string, done: LegDone): boolean
  firstToken(key: string, stages: StageTimes): boolean
  progress(key: string, outputBlocks: number): boolean
  renew(key: string): boolean
  release(key: string, outcome: Outcome): boolean
  lostTouch(held: Held): void
}

/** Holds one booking over RPC: the whole request is one billed session with the object. */
export class ClusterLease extends RpcTarget {
  readonly #host: LeaseHost
  readonly #held: Held

  constructor(host: LeaseHost, held: Held) {
    super()
    this.#host = host
    this.#held = held
  }

  async legDone(part: EarlyPart, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    this.#host.legDone(this.#held.key, { part, stages, usage })
  }

  async firstToken(stages: StageTimes): Promise<void> {
    this.#host.firstToken(this.#held.key, stages)
  }

  async progress(outputBlocks: number): Promise<void> {
    this.#host.progress(this.#held.key, outputBlocks)
  }

  /** false: the booking is not known here any more. Expected, so not an error: the platform would log one as a crash. */
  async renew(): Promise<boolean> {
    return this.#host.renew(this.#held.key)
  }

  async release(outcome: Outcome): Promise<void> {
    this.#host.release(this.#held.key, outcome)
  }

  /** The session ended, by whatever cause. See docs/decisions/lease-without-release.md for why this is no release. */
  [Symbol.dispose](): void {
    this.#host.lostTouch(this.#held)
  }
}
