/** Pool of a region in one isolate. It books here, without a call, and shares the rest with the other isolates. */
import type { EarlyLegRole } from '../../core/contract/legs.ts'
import type { Admission } from '../../core/contract/admission.ts'
import type { PoolDigest } from '../../core/contract/pool-digest.ts'
import type { EngineSignal } from '../../core/contract/engine-signal.ts'
import type { Outcome, Usage } from '../../core/contract/outcome.ts'
import type { PoolConfig } from '../../core/contract/pool-config.ts'
import type { Renewal } from '../../core/contract/renewal.ts'
import type { Resume } from '../../core/contract/resume.ts'
import type { StageTimes } from '../../core/contract/stages.ts'
import type { RegionLedger } from '../../core/edge/region-ledger.ts'
import { bookingKey } from '../../core/pool/bookings.ts'
import { Failure } from '../../failure.ts'
import { LocalPool } from '../../origin/pools/local-pool.ts'
import type { AdmitResult, PoolDecisions, PoolOverview, PoolPort, RegionDigestSource } from '../../ports/pool.ts'
import type { Lease } from '../../ports/lease.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import type { EdgeClient } from './edge-client.ts'
import type { EdgeViews } from './edge-views.ts'

/** Interval, ms, of the search for expired bookings. */
const SWEEP_MS = 1_000

type Scope = Pick<RequestScope, 'background'>

interface RegionPoolParts {
  readonly cluster: string
  readonly pool: string
  readonly ledger: RegionLedger
  /** null: the deployment is older than the shared object, so each isolate is alone. */
  readonly views: EdgeViews | null
  /** null: nothing is shared. */
  readonly client: EdgeClient | null
}

/** Isolates have no timer, so requests expire old bookings. */
function sweepingClock({ state }: RegionLedger): () => number {
  let sweptAt = 0
  return () => {
    const at = Date.now()
    if (at - sweptAt >= SWEEP_MS) {
      sweptAt = at
      state.expire(at)
    }
    return at
  }
}

export class RegionPool implements PoolPort {
  readonly #local: LocalPool
  readonly #parts: RegionPoolParts
  readonly decisions: PoolDecisions
  readonly overview: PoolOverview
  readonly region: RegionDigestSource

  constructor(parts: RegionPoolParts) {
    const { cluster, pool, ledger, views, client } = parts
    const clock = sweepingClock(ledger)
    this.#parts = parts
    this.#local = new LocalPool(ledger.state, clock)
    const ownDigest = (): PoolDigest => ledger.state.digest(clock())
    this.decisions = {
      dryRun: (admission) => this.#local.decisions.dryRun(admission),
      explain: async (id) => (await views?.decision(id)) ?? ledger.state.explain(id),
    }
    this.overview = {
      summary: async (decisions, historySince = 0) => {
        const own = () => ledger.state.summary(decisions, historySince, clock())
        return views === null ? own() : views.summary({ cluster, pool, decisions, historySince }, own)
      },
      digest: async () => (views === null ? ownDigest() : views.digest(cluster, pool, ownDigest)),
    }
    this.region = this.#local.region
    client?.add(cluster, pool, ledger)
  }

  configure(version: number, pool: PoolConfig): Promise<void> {
    return this.#local.configure(version, pool)
  }

  digest(): Promise<PoolDigest> {
    return this.#local.digest()
  }

  async admit(admission: Admission, scope?: Scope): Promise<AdmitResult> {
    await this.#parts.client?.waitForSync(scope)
    const admitted = this.#local.admitNow(admission)
    const key = bookingKey(admission)
    this.#recordChange(key, scope)
    return 'refusal' in admitted ? admitted : { ...admitted, lease: this.#lease(admitted.lease, key, scope) }
  }

  async resume(booking: Resume, scope?: Scope): Promise<Lease> {
    return this.#lease(await this.#local.resume(booking), bookingKey(booking.admission), scope)
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    const { client, cluster, pool } = this.#parts
    for (const signal of signals) {
      if (signal.kind !== 'drain') continue
      if (client === null) throw undrainable(signal.engine)
      await client.drain(cluster, pool, signal.draining)
    }
    const shared = await this.#local.observe(signals)
    this.#recordChange(null, undefined)
    return shared
  }

  #recordChange(key: string | null, scope: Scope | undefined): void {
    const isUrgent = this.#parts.ledger.touched(key)
    this.#parts.client?.recordChange(scope, isUrgent)
  }

  #lease(lease: Lease, key: string, scope: Scope | undefined): Lease {
    return new RegionLease(lease, () => this.#recordChange(key, scope))
  }
}

/** Lease that reports its changes. */
class RegionLease implements Lease {
  readonly keepsOrder = true
  readonly #lease: Lease
  readonly #recordChange: () => void

  constructor(lease: Lease, recordChange: () => void) {
    this.#lease = lease
    this.#recordChange = recordChange
  }

  async legDone(legRole: EarlyLegRole, stages: StageTimes, usage?: Usage | null): Promise<void> {
    await this.#lease.legDone(legRole, stages, usage)
  }

  firstToken(stages: StageTimes): Promise<void> {
    return this.#afterChange(this.#lease.firstToken(stages))
  }

  progress(outputBlocks: number): Promise<void> {
    return this.#lease.progress(outputBlocks)
  }

  async renew(): Promise<Renewal | void> {
    const renewal = await this.#lease.renew()
    this.#recordChange()
    return renewal
  }

  release(outcome: Outcome): Promise<void> {
    return this.#afterChange(this.#lease.release(outcome))
  }

  #afterChange(done: Promise<void>): Promise<void> {
    this.#recordChange()
    return done
  }
}

function undrainable(engine: string): Failure {
  return new Failure(
    'bad_value',
    `'${engine}' is another gateway, and this deployment has no shared state: bind the Durable Object EdgeObject as ` +
      'EDGE, set `weight: 0` on its cluster, or drain it there.',
    { param: 'engine' },
  )
}
