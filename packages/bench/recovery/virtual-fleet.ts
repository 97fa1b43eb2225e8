/** Simulated engines behind the gateway's own pool state, in virtual time. */
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { readAdmission, readEngine } from '../../../src/core/contract/decode.ts'
import { endedAs, type Outcome } from '../../../src/core/contract/outcome.ts'
import { servingEngine } from '../../../src/core/contract/placement.ts'
import type { TrialOrder } from '../../../src/core/pool/condition/engine-watch.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { sharedProbeMs } from '../../../src/core/pool/pool-engines/probe-intervals.ts'
import type { HostTasks } from '../../../src/core/pool/host-tasks.ts'
import { defaultPool } from '../../replay/src/replay/default-pool.ts'
import { EventQueue } from '../../replay/src/replay/event-queue.ts'
import { EngineModel } from '../../simulator/src/engine-model.ts'
import type { Profile } from '../../simulator/src/profiles.ts'
import type { Sequence, SequenceSpec } from '../../simulator/src/sequence.ts'

/** Interval at which a host watches its pools, ms. */
const WATCH_MS = 100
const TRIAL_PROMPT_TOKENS = 5
const NO_BLOCKS = new Uint32Array(0)

/** One request of a client. */
export interface ClientRequest {
  readonly tenant: string
  readonly promptTokens: number
  readonly outputTokens: number
  /** Keys of the full prompt blocks, two lanes each. */
  readonly blocks: Uint32Array
  /** Time after which the client leaves without a first token, ms. */
  readonly patienceMs: number
  /** Leaves after this time even if the stream has begun. Absent: it reads to the end. */
  readonly leavesAtMs?: number
}

/** What became of a request. Times are virtual, ms. */
export interface ServedRequest {
  readonly request: ClientRequest
  readonly sentAt: number
  /** null: refused. */
  readonly engine: string | null
  /** Predicted time to first token, ms; null: none. */
  readonly predictedMs: number | null
  firstTokenAt: number | null
  endedAt: number | null
}

/** Change of an engine's condition that the pool reported. */
export interface ConditionEvent {
  readonly at: number
  readonly event: string
  readonly engine: string
  readonly condition: string
}

export interface VirtualFleetOptions {
  readonly engines: readonly Profile[]
  readonly random: () => number
  readonly pool?: Partial<PoolConfig>
  /** Name of the prior that the gateway begins with; null: its default. */
  readonly prior?: string | null
}

interface LiveRequest extends SequenceSpec {
  readonly key: string
  readonly served: ServedRequest
}

type Happening = (now: number) => void

/** Engines are fed, watched, probed and tried as a host does it. All times are ms since the start. */
export class VirtualFleet {
  readonly state: PoolState
  readonly models: EngineModel[] = []
  readonly events: ConditionEvent[] = []
  readonly served: ServedRequest[] = []
  readonly #ids: string[] = []
  /** Engines whose next probe is planned before that of all. */
  readonly #probedSoon = new Set<string>()
  readonly #queue = new EventQueue()
  readonly #nextAt: number[] = []
  readonly #prior: string | null
  readonly #config: PoolConfig
  readonly #statsMs: number
  readonly #blockTokens: number
  #now = 0
  #sent = 0
  #version = 0

  constructor({ engines, random, pool = {}, prior = null }: VirtualFleetOptions) {
    this.#prior = prior
    this.#config = {
      ...defaultPool(),
      cluster: 'virtual',
      pool: 'virtual',
      blockTokens: engines[0]!.limits.blockTokens,
      ...pool,
    }
    this.#statsMs = this.#config.statsIntervalMs
    this.#blockTokens = this.#config.blockTokens
    this.state = new PoolState({ random, epoch: 'virtual' })
    this.join(engines)
    this.#queue.add(0, (at) => this.#probe(at))
    this.#queue.add(WATCH_MS, (at) => this.#watch(at))
  }

  /** Adds engines, which are empty. */
  join(profiles: readonly Profile[]): void {
    for (const profile of profiles) {
      this.#ids.push(`engine-${this.#ids.length}`)
      this.#nextAt.push(Infinity)
      this.models.push(
        new EngineModel(profile, {
          token: (sequence, at) => this.#token(sequence, at),
          ended: (sequence, at) => this.#ended(sequence, at),
        }),
      )
    }
    const engines = this.#ids.map((id) => readEngine({ id, rttMs: 0, profile: this.#prior }))
    this.state.configure((this.#version += 1), { ...this.#config, engines }, this.#now)
  }

  get now(): number {
    return this.#now
  }

  /** Calls back at a time. */
  at(time: number, happen: Happening): void {
    this.#queue.add(time, happen)
  }

  /** Lets time pass. */
  run(until: number): void {
    for (;;) {
      const engine = this.#soonest()
      const engineAt = this.#nextAt[engine]!
      const queueAt = this.#queue.nextAt()
      const at = Math.min(engineAt, queueAt)
      if (at > until) break
      this.#now = at
      if (engineAt <= queueAt) this.#advance(engine)
      else this.#queue.take()!()
    }
    this.#now = until
  }

  /** Places a request now, as its client sends it. */
  send(request: ClientRequest): ServedRequest {
    const now = this.#now
    const id = `r${this.#sent++}`
    const { tenant, promptTokens, blocks } = request
    const admission = readAdmission({
      id,
      configVersion: this.#version,
      model: 'virtual',
      promptTokens,
      streams: true,
      reportsOutput: true,
      tokenSource: 'exact',
      blocks,
      session: null,
      tenant,
      keyWeight: 1,
      requestClass: 'standard',
      hints: null,
    })
    const admitted = this.state.admit(admission, now)
    if ('events' in admitted) this.#record(admitted.events ?? [])
    const engine = 'refusal' in admitted ? null : servingEngine(admitted.placement)
    const predictedMs = 'refusal' in admitted ? null : (admitted.predictedTtftMs ?? null)
    const served: ServedRequest = { request, sentAt: now, engine, predictedMs, firstTokenAt: null, endedAt: null }
    this.served.push(served)
    if ('refusal' in admitted || engine === null) return served
    const live: LiveRequest = { key: admitted.key, served, promptTokens, blocks, outputTokens: request.outputTokens }
    const place = this.#ids.indexOf(engine)
    const sequence = this.#submit(place, live)
    const leave = (): void => this.#leave(place, sequence, live)
    this.at(now + request.patienceMs, () => served.firstTokenAt === null && leave())
    if (request.leavesAtMs !== undefined) this.at(now + request.leavesAtMs, leave)
    return served
  }

  /** The operator drains an engine, or ends the drain. */
  drain(place: number, draining: boolean): void {
    this.state.observe([{ kind: 'drain', engine: this.#ids[place]!, draining }], this.#now)
  }

  #leave(place: number, sequence: Sequence, { key, served }: LiveRequest): void {
    if (served.endedAt !== null) return
    served.endedAt = this.#now
    this.state.release(key, endedAs('client_gone'), this.#now)
    this.models[place]!.abort(sequence, this.#now)
    this.#planned(place)
  }

  #submit(place: number, spec: SequenceSpec): Sequence {
    const sequence = this.models[place]!.submit(spec, this.#now)
    this.#planned(place)
    return sequence
  }

  #planned(place: number): void {
    this.#nextAt[place] = this.models[place]!.nextEventAt()
  }

  #advance(place: number): void {
    this.models[place]!.advance(this.#now)
    this.#planned(place)
  }

  #token({ spec, outputs }: Sequence, at: number): void {
    if (!isLive(spec)) return
    const { key, served } = spec
    if (outputs === 1) {
      served.firstTokenAt = at
      this.state.firstToken(key, { ttft: at - served.sentAt }, at)
    } else if (outputs % this.#blockTokens === 0) this.state.progress(key, outputs / this.#blockTokens, at)
  }

  #ended(sequence: Sequence, at: number): void {
    const { spec, state, cachedTokens } = sequence
    if (!isLive(spec) || state !== 'complete') return
    spec.served.endedAt = at
    this.state.release(spec.key, completed(spec, { cachedTokens, at }), at)
  }

  #probe(now: number): void {
    for (const id of this.#ids) this.#probeOne(id, now)
    this.at(now + this.#statsMs, (at) => this.#probe(at))
  }

  /** Engines whose reports change within seconds are asked again soon. */
  #probeOne(engine: string, now: number): void {
    const model = this.models[this.#ids.indexOf(engine)]!
    const { promptTokens, outputTokens } = model.counters
    const stats = {
      running: model.running,
      waiting: model.waiting,
      kvUsage: model.usage,
      blockTokens: model.limits.blockTokens,
      cacheBlocks: model.limits.cacheBlocks,
      prefixCaching: true,
      adapters: null,
      work: { total: promptTokens + outputTokens, live: outputTokens, prefill: null },
    }
    const signal = { kind: 'probe' as const, engine, at: now, healthy: true, asleep: false, stats }
    if (this.state.observe([signal], now).length === 0 || this.#probedSoon.has(engine)) return
    this.#probedSoon.add(engine)
    this.at(now + sharedProbeMs(this.#ids.length), (at) => {
      this.#probedSoon.delete(engine)
      this.#probeOne(engine, at)
    })
  }

  #record(events: HostTasks['events']): void {
    for (const { event, engine, condition = '' } of events)
      this.events.push({ at: this.#now, event, engine, condition })
  }

  #watch(now: number): void {
    const { trials, events } = this.state.watch(now)
    this.#record(events)
    for (const trial of trials) {
      this.#probeOne(trial.engine, now)
      this.#try(trial)
    }
    this.at(now + WATCH_MS, (at) => this.#watch(at))
  }

  /** The gateway's one-token request waits in the engine's queue like any other. */
  #try({ engine, limitMs }: TrialOrder): void {
    const sentAt = this.#now
    const place = this.#ids.indexOf(engine)
    const spec: SequenceSpec = { promptTokens: TRIAL_PROMPT_TOKENS, outputTokens: 1, blocks: NO_BLOCKS }
    const sequence = this.#submit(place, spec)
    const report = (result: 'passed' | 'failed'): void => {
      this.state.observe([{ kind: 'trial', engine, sentAt, result }], this.#now)
    }
    const limit = sentAt + limitMs
    const look = (now: number): void => {
      if (sequence.ended) return report('passed')
      if (now < limit) return this.at(Math.min(limit, now + TRIAL_LOOK_MS), look)
      this.models[place]!.abort(sequence, now)
      this.#planned(place)
      report('failed')
    }
    this.at(sentAt + TRIAL_LOOK_MS, look)
  }

  #soonest(): number {
    let best = 0
    for (let at = 1; at < this.#nextAt.length; at += 1) if (this.#nextAt[at]! < this.#nextAt[best]!) best = at
    return best
  }
}

/** Precision of a trial's answer, ms. */
const TRIAL_LOOK_MS = 10

const isLive = (spec: SequenceSpec): spec is LiveRequest => 'served' in spec

function completed(
  { promptTokens, outputTokens, served }: LiveRequest,
  { cachedTokens, at }: { readonly cachedTokens: number; readonly at: number },
): Outcome {
  return {
    ...endedAs('complete'),
    status: 200,
    usage: { promptTokens, completionTokens: outputTokens, cachedTokens: Math.max(0, cachedTokens) },
    outputEvents: outputTokens,
    stages: { ttft: (served.firstTokenAt ?? at) - served.sentAt },
  }
}
