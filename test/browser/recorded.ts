/**
 * A gateway whose pools have a past: requests that were booked in virtual time. It shows rates and streams that HTTP
 * could not carry within the seconds of a test.
 */
import { LocalPool } from '../../src/origin/pools/local-pool.ts'
import { configurePools } from '../../src/platform/node/configure-pools.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { nodePorts } from '../../src/platform/node/ports.ts'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { openWithListeners, type ListeningGateway } from '../../src/platform/node/start-gateway.ts'
import { steadyNow } from '../../src/platform/node/steady-clock.ts'
import { PoolState } from '../../src/core/pool/pool-state.ts'
import type { EngineSignal } from '../../src/core/contract/engine-signal.ts'
import type { StageTimes } from '../../src/core/contract/stages.ts'
import type { Lease } from '../../src/ports/lease.ts'
import { admission, outcome, probe, stats } from '../kit/pool-fixtures.ts'
import { nodeConfig } from '../kit/node-gateway.ts'
import { ownPorts } from '../own-ports.ts'
import { type Cluster, documentOf } from './world.ts'

export interface Past {
  readonly requestsPerS: number
  /** Duration of each stream. */
  readonly streamS: number
  /** Length of the past, seconds. */
  readonly lastS: number
  /** Share of the usual traffic by second of the past. Default: 1. */
  readonly shareAt?: (second: number) => number
  /** Engine whose metrics can be read only at the start of the past. Default: none. */
  readonly withoutMetrics?: string
}

export interface RecordedWorld {
  readonly fleet: RunningFleet
  readonly gateway: ListeningGateway
  readonly url: string
  close(): Promise<void>
}

const TICK_MS = 10
const TICKS_PER_S = 1000 / TICK_MS
/** Blocks that the requests of a conversation share. */
const SHARED_BLOCKS = 20
/** Default `block_tokens` of a pool. */
const BLOCK_TOKENS = 64
/** A stream has one block of output in so many seconds. */
const BLOCK_S = 2

/** The traffic is divided evenly among the clusters, and goes on in real time until `close`. */
export async function startRecordedWorld(clusters: readonly Cluster[], past: Past): Promise<RecordedWorld> {
  const engines = clusters.flatMap((cluster) => cluster.engines)
  const fleet = await startFleet({ engines, model: 'sim', port: ownPorts(engines.length + 1) })
  const config = nodeConfig(documentOf(clusters, fleet, {}), ownPorts(1))
  const clock = new Clock(past.lastS)
  const pools = new Map(
    clusters.map(({ id }) => [id, new LocalPool(new PoolState({ random: Math.random, epoch: id }), clock.now)]),
  )
  const log = openLog('error')
  const ports = { ...nodePorts(config, log), pool: (id: string) => pools.get(id)!, now: clock.now }
  await configurePools(config, ports)
  const own = { ...past, requestsPerS: past.requestsPerS / clusters.length }
  const players = clusters.map(({ id, engines: its }, at) => {
    const names = its.map((engine) => engine.id!)
    return new Player(pools.get(id)!, { ...own, names, now: clock.now, number: at })
  })
  clock.play(() => players.forEach((player) => player.step()))
  const gateway = await openWithListeners(config, ports, { folder: '.', vocabularies: new Map() })
  return {
    fleet,
    gateway,
    url: gateway.url,
    async close() {
      clock.stop()
      await gateway.stop(AbortSignal.abort())
      await ports.close()
      await fleet.close()
    },
  }
}

/** Virtual time until the past is booked, then real time from there: booking it takes a few seconds. */
class Clock {
  readonly #startMs: number
  readonly #pastTicks: number
  #tick = 0
  #realFrom: number | null = null
  #timer: NodeJS.Timeout | undefined

  constructor(pastS: number) {
    this.#startMs = steadyNow() - pastS * 1000
    this.#pastTicks = pastS * TICKS_PER_S
  }

  readonly now = (): number =>
    this.#startMs +
    (this.#realFrom === null ? this.#tick * TICK_MS : this.#pastTicks * TICK_MS + steadyNow() - this.#realFrom)

  play(step: () => void): void {
    for (; this.#tick < this.#pastTicks; this.#tick += 1) step()
    this.#realFrom = steadyNow()
    this.#timer = setInterval(() => {
      for (; this.#startMs + this.#tick * TICK_MS < this.now(); this.#tick += 1) step()
    }, 5 * TICK_MS)
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}

interface Played extends Past {
  readonly names: readonly string[]
  readonly now: () => number
  /** Distinguishes the requests of the clusters. */
  readonly number: number
}

/** Books the requests of one cluster, tick by tick, and reports the load of its engines. */
class Player {
  readonly #cluster: LocalPool
  readonly #observe: LocalPool['observe']
  readonly #past: Played
  readonly #running = new Map<string, number>()
  readonly #due: (() => void)[][] = []
  #tick = 0
  #started = 0
  /** By the gateway, which sees which simulated engines are down. */
  #isProbed = false
  #wanted = 0

  constructor(cluster: LocalPool, past: Played) {
    this.#cluster = cluster
    this.#past = past
    this.#observe = cluster.observe.bind(cluster)
    // The simulated engines know nothing of these requests.
    cluster.observe = (signals) => {
      this.#isProbed = true
      return this.#observe(signals.map((signal) => this.#loaded(signal)))
    }
  }

  step(): void {
    const { requestsPerS, shareAt = () => 1 } = this.#past
    for (const act of this.#due[this.#tick] ?? []) act()
    delete this.#due[this.#tick]
    this.#wanted += (requestsPerS * shareAt(Math.floor(this.#tick / TICKS_PER_S))) / TICKS_PER_S
    for (; this.#started < this.#wanted; this.#started += 1) this.#start(this.#started)
    const { names, now } = this.#past
    if (!this.#isProbed && this.#tick % TICKS_PER_S === 0)
      void this.#observe(names.map((name) => this.#loaded(probe(name, now()))))
    this.#tick += 1
  }

  #loaded(signal: EngineSignal): EngineSignal {
    if (signal.kind !== 'probe' || !signal.healthy) return signal
    const { requestsPerS, streamS, names, withoutMetrics } = this.#past
    if (signal.engine === withoutMetrics && this.#tick > 0) return { ...signal, stats: null }
    const running = this.#running.get(signal.engine) ?? 0
    const kvUsage = Math.min(1, (0.35 * running * names.length) / (requestsPerS * streamS))
    return { ...signal, stats: stats({ running, kvUsage }) }
  }

  #start(request: number): void {
    const ownBlocks = 2 + ((request * 7) % 9)
    const promptTokens = (SHARED_BLOCKS + ownBlocks) * BLOCK_TOKENS + 8
    const own = admission({
      id: `recorded-${this.#past.number}-${request}`,
      model: 'sim',
      promptTokens,
      blocks: blocksOf(request, ownBlocks),
    })
    const admitted = this.#cluster.admitNow(own)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    const { lease, placement } = admitted
    const engine = placement.kind === 'whole' ? placement.engine : placement.decode
    this.#count(engine, 1)
    const ttftMs = ttftOf(request, ownBlocks)
    const isSplit = placement.kind !== 'whole' && placement.prefill !== null
    const prefillMs = isSplit ? ttftMs / 2 : 0
    if (isSplit) this.#later(prefillMs, () => void lease.legDone('prefill', {}))
    const early = { edge: 0.2, tokens: 0.6, admit: 0.1, ...(isSplit ? { prefill_leg: prefillMs - 2 } : {}) }
    const stages = { ...early, connect: 2, first_byte: ttftMs - prefillMs - 1, ttft: ttftMs }
    this.#later(ttftMs, () => void lease.firstToken(stages))
    this.#stream(lease, stages, promptTokens)
    this.#later(this.#past.streamS * 1000 + TICK_MS, () => this.#count(engine, -1))
  }

  #count(engine: string, more: number): void {
    this.#running.set(engine, (this.#running.get(engine) ?? 0) + more)
  }

  #stream(lease: Lease, stages: StageTimes, promptTokens: number): void {
    const { streamS } = this.#past
    for (let block = 1; block * BLOCK_S <= streamS; block += 1)
      this.#later(block * BLOCK_S * 1000, () => void lease.progress(block + 1))
    const completionTokens = (streamS / BLOCK_S) * BLOCK_TOKENS
    const usage = { promptTokens, completionTokens, cachedTokens: SHARED_BLOCKS * BLOCK_TOKENS }
    const end = outcome({ usage, stages })
    this.#later(streamS * 1000 + TICK_MS, () => void lease.release(end))
  }

  #later(afterMs: number, act: () => void): void {
    const at = this.#tick + Math.max(1, Math.round(afterMs / TICK_MS))
    ;(this.#due[at] ??= []).push(act)
  }
}

/** What an engine takes for the uncached blocks, with some variation; every 97th request is slow. */
const ttftOf = (request: number, ownBlocks: number): number =>
  (100 + 36 * ownBlocks) * (1 + ((request * 31) % 17) / 100) * (request % 97 === 0 ? 3 : 1)

/** Forty conversations: all but the last blocks are shared. */
function blocksOf(request: number, ownBlocks: number): Uint32Array {
  return Uint32Array.from({ length: 2 * (SHARED_BLOCKS + ownBlocks) }, (_, lane) => {
    const block = lane >> 1
    const of = block < SHARED_BLOCKS ? request % 40 : 1000 + request
    return (of * 64 + block) * 2 + (lane & 1) + 1
  })
}
