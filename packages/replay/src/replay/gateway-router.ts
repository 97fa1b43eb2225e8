import type { AdmittedBooking } from '../../../../src/core/pool/admission-result.ts'
import { PoolState } from '../../../../src/core/pool/pool-state.ts'
import type { Admission, CacheHint, RequestClass } from '../../../../src/core/contract/admission.ts'
import type { OverloadControl } from '../../../../src/core/overload/overload-control.ts'
import { endedAs } from '../../../../src/core/contract/outcome.ts'
import type { EngineSignal } from '../../../../src/core/contract/engine-signal.ts'
import type { PolicyConfig, PoolConfig, SloConfig } from '../../../../src/core/contract/pool-config.ts'
import { PAYLOAD_VERSION } from '../../../../src/core/contract/payload-version.ts'
import type { Placement } from '../../../../src/core/contract/placement.ts'
import type { Refusal } from '../../../../src/core/contract/refusal.ts'
import type { StageTimes } from '../../../../src/core/contract/stages.ts'
import { sharedProbeMs } from '../../../../src/core/pool/pool-engines/probe-intervals.ts'
import { readAdmission, readEngine } from '../../../../src/core/contract/decode.ts'
import { defaultPool } from './default-pool.ts'
import type { ReplayEngine } from './replay-engine.ts'
import type { Job } from './job.ts'
import type { TierReach } from './lmcache-store.ts'
import type { ReplayRouter, Route, RouterContext } from './router.ts'

export interface GatewayOptions {
  readonly name: string
  readonly policy: PolicyConfig
  /** If the fleet has no LMCache: look up the engines' exact caches instead. */
  readonly lookup?: boolean
  /** Objectives of admission control; absent: none. */
  readonly slo?: SloConfig
  /** Key of a request; absent: all have one. */
  readonly tenantOf?: (job: Job) => string
  /** Share of a job's key relative to others; absent: 1. */
  readonly weightOf?: (job: Job) => number
  /** Class of a job; absent: standard. */
  readonly classOf?: (job: Job) => RequestClass
  /** Lets refused requests wait for room; absent: they do not. */
  readonly queue?: NonNullable<PoolConfig['queue']>
  /** Milliseconds between a choice and its booking, in which other choices may happen. 0: atomic, as shipped. */
  readonly bookingDelayMs?: number
  /** Admission control; absent: the gateway's own. */
  readonly overload?: OverloadControl
  /** Called for every choice that is made and booked. */
  readonly chose?: (choice: Choice, now: number) => void
}

/** Data that other gateways need to book a choice. */
export interface Choice {
  readonly job: Job
  readonly admission: Admission
  readonly placement: Placement
}

/** A replay renews no leases. */
const NO_LEASE_END_MS = 1e12
/** Interval between two reads of an engine's gauges. */
export const STATS_INTERVAL_MS = 10_000
const POOL = 'replay'

interface BookedJob {
  readonly job: Job
  readonly admission: Admission
  readonly admitted: AdmittedBooking
}

/** The gateway's own state machine (the shipped code), with the replay's clock and random source. */
export class GatewayRouter implements ReplayRouter {
  readonly name: string
  scrapeMs = STATS_INTERVAL_MS
  readonly state: PoolState
  readonly #context: RouterContext
  readonly #options: GatewayOptions
  readonly #keys = new Map<Job, string>()
  /** Places of the engines that get requests, by id. */
  readonly #places = new Map<string, number>()
  readonly #pool: Omit<PoolConfig, 'engines'>
  #version = 0
  /** Time that a job waited for room, ms. Absent: it did not. */
  readonly #waitedMs = new Map<Job, number>()
  /** Refusal of the job that was refused last. */
  #refusal: Refusal | null = null
  /** Chosen, not yet booked. */
  readonly #later: (Choice & { readonly at: number })[] = []

  constructor(options: GatewayOptions, context: RouterContext) {
    this.name = options.name
    this.#context = context
    this.#options = options
    const { overload } = options
    this.state = new PoolState({ random: context.random, epoch: POOL, ...(overload === undefined ? {} : { overload }) })
    const { slo = null, queue = null } = options
    this.#pool = { ...poolOf(options.policy, context), slo, queue }
    this.useEngines([...context.engines.keys()], 0)
  }

  /** Replaces the engines that get requests. The others finish what they have. */
  useEngines(places: readonly number[], now: number): void {
    const { rttMs, specs } = this.#context
    const engines = places.map((at) => readEngine({ id: idOf(at), rttMs, ...(specs?.[at] ?? specs?.[0]) }))
    this.#places.clear()
    for (const at of places) this.#places.set(idOf(at), at)
    this.#version += 1
    this.state.configure(this.#version, { ...this.#pool, engines }, now)
  }

  route(job: Job, now: number): Route | null {
    const admission = this.#admissionOf(job, now)
    this.#addDueBookings(now)
    if (this.#options.bookingDelayMs !== undefined) return this.#routeApart(job, admission, now)
    const admitted = this.state.admit(admission, now)
    if (!('refusal' in admitted)) return this.#booked({ job, admission, admitted }, now)
    this.#refusal = admitted.refusal
    return null
  }

  wait(job: Job, now: number, done: (route: Route | null) => void): boolean {
    if (this.#refusal?.mayWait !== true) return false
    const admission = this.#admissionOf(job, now)
    this.state.wait(admission, {
      now,
      waitedMs: 0,
      done: (answer) => {
        if ('refusal' in answer) return done(null)
        const waitedMs = this.state.explain(admission.id)?.waitedMs ?? 0
        this.#waitedMs.set(job, waitedMs)
        done(this.#booked({ job, admission, admitted: answer }, now + waitedMs))
      },
    })
    return true
  }

  /** Why the job that was refused last is refused; null: none was. */
  get refusal(): Refusal | null {
    return this.#refusal
  }

  wake(now: number): void {
    this.state.wake(now)
  }

  #booked({ job, admission, admitted }: BookedJob, now: number): Route {
    const { key, placement, predictedTtftMs } = admitted
    this.#keys.set(job, key)
    this.#options.chose?.({ job, admission, placement }, now)
    return this.#routeOf(placement, predictedTtftMs)
  }

  firstToken(job: Job, now: number): void {
    this.#addDueBookings(now)
    const key = this.#keys.get(job)
    if (key !== undefined) this.state.firstToken(key, this.#stagesOf(job), now)
  }

  progress(job: Job, outputBlocks: number, now: number): void {
    const key = this.#keys.get(job)
    if (key !== undefined) this.state.progress(key, outputBlocks, now)
  }

  ended(job: Job, now: number): void {
    this.#addDueBookings(now)
    const key = this.#keys.get(job)
    if (key === undefined) return
    const stages = this.#stagesOf(job)
    this.#keys.delete(job)
    this.#waitedMs.delete(job)
    const usage = { promptTokens: job.promptTokens, completionTokens: job.outputTokens, cachedTokens: job.cachedTokens }
    this.state.release(
      key,
      {
        version: PAYLOAD_VERSION,
        result: 'complete',
        failure: null,
        status: 200,
        usage,
        outputEvents: job.outputTokens,
        stages,
      },
      now,
    )
  }

  #stagesOf(job: Job): StageTimes {
    const waitedMs = this.#waitedMs.get(job)
    return { ttft: job.firstTokenAt - job.sentAt, ...(waitedMs === undefined ? {} : { gateway_queue: waitedMs }) }
  }

  /** Books a choice of another gateway: at once, or late with the output so far. */
  receive(
    { job, admission, placement }: Choice,
    delivery: 'now' | { readonly outputBlocks: number },
    now: number,
  ): void {
    const ofPeer = delivery === 'now' ? 'now' : 'before'
    const held = this.state.resume(
      {
        admission,
        placement,
        ofPeer,
        firstTokenSeen: delivery !== 'now' && job.firstTokenAt >= 0,
        outputBlocks: delivery === 'now' ? 0 : delivery.outputBlocks,
      },
      now,
    )
    if ('key' in held) this.#keys.set(job, held.key)
  }

  /** The lease of a booking ended without a heartbeat. */
  lapse(job: Job, now: number): void {
    const key = this.#keys.get(job)
    if (key === undefined) return
    this.#keys.delete(job)
    this.state.release(key, endedAs('lapsed'), now)
  }

  scrape(now: number): void {
    const shared = this.state.observe(
      [...this.#places.values()].map((at) =>
        probeOf(this.#context.engines[at]!, at, { now, blockTokens: this.#context.blockTokens }),
      ),
      now,
    )
    this.scrapeMs = shared.length > 0 ? sharedProbeMs(this.#places.size) : STATS_INTERVAL_MS
  }

  /** Chooses now and books later, as routers with remote state do. */
  #routeApart(job: Job, admission: Admission, now: number): Route | null {
    const chosen = this.state.rank(admission, now)
    if ('refusal' in chosen) return null
    const { placement, predictedTtftMs } = chosen.decision
    this.#later.push({ at: now + this.#options.bookingDelayMs!, job, admission, placement })
    return this.#routeOf(placement, predictedTtftMs)
  }

  #addDueBookings(now: number): void {
    while (this.#later[0] !== undefined && this.#later[0].at <= now) {
      const { job, admission, placement, at } = this.#later.shift()!
      if (job.endedAt >= 0) continue
      const held = this.state.resume(
        { admission, placement, firstTokenSeen: job.firstTokenAt >= 0, outputBlocks: 0 },
        at,
      )
      if ('key' in held) this.#keys.set(job, held.key)
    }
  }

  #routeOf(placement: Placement, predictedTtftMs: number | null): Route {
    if (placement.kind === 'whole') return { engine: this.#places.get(placement.engine)!, predictedTtftMs }
    const decode = this.#places.get(placement.decode)!
    return placement.prefill === null
      ? { engine: decode, predictedTtftMs }
      : { engine: decode, prefill: this.#places.get(placement.prefill)!, predictedTtftMs }
  }

  #admissionOf(job: Job, now: number): Admission {
    return readAdmission({
      id: `r${job.index}`,
      configVersion: 1,
      model: POOL,
      promptTokens: job.promptTokens,
      streams: true,
      tokenSource: 'exact',
      blocks: job.blocks,
      session: job.request.session,
      tenant: this.#options.tenantOf?.(job) ?? '',
      keyWeight: this.#options.weightOf?.(job) ?? 1,
      requestClass: this.#options.classOf?.(job) ?? 'standard',
      hints: this.#hints(job, now),
    })
  }

  /** Hints from LMCache's directory with its delay; without LMCache, the engines' exact caches. */
  #hints(job: Job, now: number): CacheHint[] | null {
    const { lmcache, engines, blockTokens } = this.#context
    if (lmcache != null)
      return engines.flatMap((_, at) => hintsAt(idOf(at), lmcache.lookup(at, job.blocks, now), blockTokens))
    if (this.#options.lookup !== true) return null
    return engines.map((engine, at) => ({
      engine: idOf(at),
      matchedTokens: engine.exactCachedTokens(job),
      tier: 'device',
    }))
  }
}

/** One hint per tier that adds something to the faster ones. */
function hintsAt(engine: string, reach: TierReach, blockTokens: number): CacheHint[] {
  const { host, disk, remote } = reach
  const hints: CacheHint[] = []
  if (host > 0) hints.push({ engine, tier: 'host', matchedTokens: host * blockTokens })
  if (disk > host) hints.push({ engine, tier: 'disk', matchedTokens: disk * blockTokens })
  if (remote > Math.max(host, disk)) hints.push({ engine, tier: 'remote', matchedTokens: remote * blockTokens })
  return hints
}

function idOf(at: number): string {
  return `engine-${at}`
}

function poolOf(policy: PolicyConfig, { blockTokens, split }: RouterContext): Omit<PoolConfig, 'engines'> {
  const defaults = defaultPool()
  return {
    ...defaults,
    cluster: POOL,
    pool: POOL,
    blockTokens,
    policy,
    split: split ?? defaults.split,
    leaseMs: NO_LEASE_END_MS,
    statsIntervalMs: STATS_INTERVAL_MS,
    // Routers that are compared with the gateway have no limit either.
    maxWaiting: Infinity,
  }
}

function probeOf(
  engine: ReplayEngine,
  at: number,
  { now, blockTokens }: { readonly now: number; readonly blockTokens: number },
): EngineSignal {
  const { running, waiting, kvUsage } = engine.gauges()
  const stats = {
    running,
    waiting,
    kvUsage,
    blockTokens,
    cacheBlocks: engine.cacheBlocks,
    prefixCaching: true,
    adapters: null,
  }
  return { kind: 'probe', engine: idOf(at), at: now, healthy: true, asleep: false, stats }
}
