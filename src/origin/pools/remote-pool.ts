/** Pool port for pool state in another thread or in a Durable Object: one proxy for all transports. */
import type { Admission } from '../../core/contract/admission.ts'
import type { BookingEvent } from '../../core/contract/booking-event.ts'
import type { EngineSignal } from '../../core/contract/engine-signal.ts'
import type { EarlyLegRole } from '../../core/contract/legs.ts'
import type { Outcome, Usage } from '../../core/contract/outcome.ts'
import type { PoolConfig } from '../../core/contract/pool-config.ts'
import type { Renewal } from '../../core/contract/renewal.ts'
import type { Resume } from '../../core/contract/resume.ts'
import type { StageTimes } from '../../core/contract/stages.ts'
import { EdgeRefusals } from '../../core/overload/edge-refusals.ts'
import type { AdmitAnswer } from '../../core/pool/admission-result.ts'
import { bookingKey } from '../../core/pool/bookings.ts'
import type { Lease } from '../../ports/lease.ts'
import type {
  AdmitResult,
  KvEventFeed,
  PoolCosts,
  PoolDecisions,
  PoolOverview,
  PoolPort,
  PoolQueue,
  PoolRegistry,
  RegionDigestSource,
  RemoteState,
} from '../../ports/pool.ts'
import type { BackgroundScope, PoolMethod, PoolTransport } from './pool-transport.ts'

interface RemotePoolParts {
  readonly transport: PoolTransport
  readonly now: () => number
  /** In [0, 1). */
  readonly random: () => number
}

export class RemotePool implements PoolPort {
  readonly #transport: PoolTransport
  readonly #now: () => number
  readonly #refusals: EdgeRefusals
  readonly remote: RemoteState
  readonly queue: PoolQueue
  readonly registry: PoolRegistry
  readonly kvEvents: KvEventFeed
  readonly decisions: PoolDecisions
  readonly overview: PoolOverview
  readonly costs: PoolCosts
  readonly region: RegionDigestSource

  constructor({ transport, now, random }: RemotePoolParts) {
    this.#transport = transport
    this.#now = now
    this.#refusals = new EdgeRefusals(random)
    const call = <Answer>(method: PoolMethod, ...args: readonly unknown[]) =>
      transport.call(method, args) as Promise<Answer>
    this.remote = { admitLimitMs: () => transport.admitLimitMs?.() ?? null }
    this.queue = {
      wait: async (admission, waitedMs, scope) =>
        this.#leased(admission, await transport.wait(compact(admission), waitedMs), scope),
      leave: (key) => call('leave', key),
    }
    this.registry = { call: (registryCall) => call('registry', registryCall) }
    this.kvEvents = { feed: (feeds) => call('feed', feeds) }
    this.decisions = { dryRun: (admission) => call('rank', compact(admission)), explain: (id) => call('explain', id) }
    this.overview = { summary: (decisions, historySince = 0) => call('summary', decisions, historySince) }
    this.costs = { costOf: (key) => call('costOf', key) }
    this.region = { digest: () => call('regionDigest') }
  }

  /** Asks the pool, unless it refuses so many requests that this gateway refuses a part of them itself. */
  async admit(admission: Admission, scope?: BackgroundScope): Promise<AdmitResult> {
    const refusal = this.#refusals.answer(admission, this.#now())
    if (refusal !== null) return { refusal }
    const answer = await this.#admitRemotely(admission)
    this.#refusals.answered(admission, 'refusal' in answer ? answer.refusal : null, this.#now())
    return this.#leased(admission, answer, scope)
  }

  async #admitRemotely(admission: Admission): Promise<AdmitAnswer> {
    const edgeRefusals = this.#refusals.take()
    if (edgeRefusals === 0) return this.#transport.admit(compact(admission))
    try {
      return await this.#transport.admit({ ...compact(admission), edgeRefusals })
    } catch (error) {
      this.#refusals.giveBack(edgeRefusals)
      throw error
    }
  }

  async resume(booking: Resume, scope?: BackgroundScope): Promise<Lease> {
    await this.#transport.resume({ ...booking, admission: compact(booking.admission) })
    return this.#lease(booking.admission, scope)
  }

  async configure(version: number, pool: PoolConfig): Promise<void> {
    await this.#transport.call('configure', [version, pool])
  }

  async observe(signals: readonly EngineSignal[]): Promise<readonly string[]> {
    // An object of an earlier version returns nothing.
    return ((await this.#transport.call('observe', [signals])) as readonly string[] | undefined) ?? []
  }

  digest() {
    return this.#transport.call('digest', []) as ReturnType<PoolPort['digest']>
  }

  #leased(admission: Admission, answer: AdmitAnswer, scope: BackgroundScope | undefined): AdmitResult {
    return 'refusal' in answer ? answer : { lease: this.#lease(admission, scope), ...answer }
  }

  #lease(admission: Admission, scope: BackgroundScope | undefined): Lease {
    return new RemoteLease(this.#transport, bookingKey(admission), scope)
  }
}

const done = Promise.resolve()

/** A booking of a remote pool. Only `renew` waits for an answer. */
class RemoteLease implements Lease {
  readonly keepsOrder = true
  readonly #transport: PoolTransport
  readonly #key: string
  readonly #scope: BackgroundScope | undefined
  #released = false

  constructor(transport: PoolTransport, key: string, scope: BackgroundScope | undefined) {
    this.#transport = transport
    this.#key = key
    this.#scope = scope
  }

  legDone(legRole: EarlyLegRole, stages: StageTimes, usage: Usage | null = null): Promise<void> {
    return this.#send(['leg_done', this.#key, legRole, stages, usage])
  }

  firstToken(stages: StageTimes): Promise<void> {
    return this.#send(['first_token', this.#key, stages])
  }

  progress(outputBlocks: number): Promise<void> {
    return this.#send(['progress', this.#key, outputBlocks])
  }

  async renew(): Promise<Renewal> {
    if (this.#released) throw new Error(`booking ${this.#key} was released: it cannot be renewed or resumed`)
    const renewal = await this.#transport.renew(this.#key)
    if (renewal === false) throw new Error(`the pool does not have booking ${this.#key}: resume it`)
    return renewal
  }

  release(outcome: Outcome): Promise<void> {
    const sent = this.#send(['release', this.#key, outcome])
    this.#released = true
    return sent
  }

  #send(event: BookingEvent): Promise<void> {
    return this.#released ? done : this.#transport.send(event, this.#scope)
  }
}

/** Copies a view into a buffer of its own, because structured clone copies the whole buffer of a view. */
function compact(admission: Admission): Admission {
  const { blocks } = admission
  return blocks.byteLength === blocks.buffer.byteLength ? admission : { ...admission, blocks: blocks.slice() }
}
