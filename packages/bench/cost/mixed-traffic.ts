/** Mixed traffic on simulated engines in virtual time: prefill, decode, clients that leave, split requests. */
import { readAdmission, readEngine, readOutcome } from '../../../src/core/contract/decode.ts'
import type { EngineSpec } from '../../../src/core/contract/pool-config.ts'
import { servingEngine } from '../../../src/core/contract/placement.ts'
import type { RequestCost } from '../../../src/core/cost/request-cost.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { defaultPool } from '../../replay/src/replay/default-pool.ts'
import { EventQueue } from '../../replay/src/replay/event-queue.ts'
import { EngineModel } from '../../simulator/src/engine-model.ts'
import { profiles } from '../../simulator/src/profiles.ts'
import type { Sequence } from '../../simulator/src/sequence.ts'

/** Time between the gateway and an engine, one way, ms. */
const WAY_MS = 0.2
const BLOCK_TOKENS = 16

interface TrafficOptions {
  readonly roles: readonly EngineSpec['role'][]
  readonly requests: number
  /** Requests per second. */
  readonly perSecond: number
  /** Share of clients that leave before the end. */
  readonly leaving: number
  /** Share of requests without a stream, whose first token is not visible. */
  readonly whole: number
  readonly seed: number
}

export interface TrafficResult {
  /** Engine seconds by key. */
  readonly byKey: ReadonlyMap<string, number>
  /** Time in which the engines ran steps, seconds. */
  readonly busyS: number
  readonly savedS: number
  readonly aborted: number
  readonly split: number
}

interface TrafficRequest {
  readonly key: string
  readonly tenant: string
  readonly promptTokens: number
  readonly outputTokens: number
  readonly blocks: Uint32Array
  readonly streams: boolean
  readonly first: EngineModel
  readonly decode: EngineModel
  sequence: Sequence
  leg: 'prefill' | 'decode'
  hasEnded: boolean
}

/** Runs the traffic to its end. */
export function mixedTraffic(options: TrafficOptions): TrafficResult {
  return new Traffic(options).run()
}

class Traffic {
  readonly #options: TrafficOptions
  readonly #random: () => number
  readonly #events = new EventQueue()
  readonly #state: PoolState
  readonly #engines = new Map<string, EngineModel>()
  readonly #running = new Map<Sequence, TrafficRequest>()
  readonly #costs: { readonly tenant: string; readonly cost: RequestCost }[] = []
  #now = 0
  #aborted = 0
  #split = 0

  constructor(options: TrafficOptions) {
    this.#options = options
    this.#random = chance(options.seed)
    this.#state = new PoolState({ random: this.#random, epoch: 'cost' })
    const engines = options.roles.map((role, at) => readEngine({ id: `e${at}`, role }))
    const pool = defaultPool()
    const split = { ...pool.split, mode: options.roles.includes('prefill') ? 'always' : 'never' } as const
    const more = { blockTokens: BLOCK_TOKENS, leaseMs: 1e12, countsCosts: true, split, engines }
    this.#state.configure(1, { ...pool, ...more }, 0)
    for (const { id } of engines) this.#engines.set(id, this.#openEngine())
  }

  run(): TrafficResult {
    let at = 0
    for (let number = 0; number < this.#options.requests; number++) {
      at += (-1000 * Math.log(1 - this.#random())) / this.#options.perSecond
      this.#events.add(at, () => this.#arrive(number))
    }
    for (let next = this.#nextAt(); next < Infinity; next = this.#nextAt()) {
      this.#now = next
      this.#events.run(next)
      for (const engine of this.#engines.values()) engine.advance(next)
    }
    return this.#result()
  }

  #nextAt(): number {
    return Math.min(this.#events.nextAt(), ...Array.from(this.#engines.values(), (engine) => engine.nextEventAt()))
  }

  #openEngine(): EngineModel {
    return new EngineModel(profiles['demo']!, {
      token: (sequence, at) => this.#later(at, () => this.#token(sequence, sequence.outputs)),
      ended: (sequence, at) => this.#later(at, () => this.#ended(sequence)),
    })
  }

  #later(at: number, happen: () => void): void {
    this.#events.add(at + WAY_MS, happen)
  }

  #arrive(number: number): void {
    const random = this.#random
    const shared = Math.floor(random() * 20)
    const promptTokens = Math.floor(100 + 3000 * random() ** 2)
    const outputTokens = Math.floor(2 + 300 * random() ** 2)
    const streams = random() >= this.#options.whole
    const admission = readAdmission({
      id: `r${number}`,
      configVersion: 1,
      model: 'm',
      promptTokens,
      tokenSource: 'exact',
      blocks: blocksOf(shared, number, promptTokens),
      tenant: `key-${number % 7}`,
      streams,
      expectedOutputTokens: null,
    })
    const admitted = this.#state.admit(admission, this.#now)
    if ('refusal' in admitted) throw new Error(`refused: ${admitted.refusal.detail}`)
    const { key, placement } = admitted
    const isSplit = placement.kind === 'split'
    if (isSplit) this.#split += 1
    const decode = this.#engines.get(servingEngine(placement))!
    const first = isSplit ? this.#engines.get(placement.prefill)! : decode
    this.#later(this.#now, () => {
      const { blocks, tenant } = admission
      const spec = { promptTokens, outputTokens: isSplit ? 1 : outputTokens, blocks, hold: isSplit }
      const sequence = first.submit(spec, this.#now)
      const leg = isSplit ? 'prefill' : 'decode'
      const fields = { key, tenant, promptTokens, outputTokens, blocks, streams, first, decode }
      const running: TrafficRequest = { ...fields, sequence, leg, hasEnded: false }
      this.#running.set(sequence, running)
      if (random() < this.#options.leaving) this.#later(this.#now + 4000 * random(), () => this.#leave(running))
    })
  }

  #token(sequence: Sequence, outputs: number): void {
    const running = this.#running.get(sequence)
    if (running === undefined || running.hasEnded || running.leg === 'prefill') return
    if (!running.streams) return
    if (outputs === 1) this.#state.firstToken(running.key, {}, this.#now)
    else if (outputs % BLOCK_TOKENS === 0) this.#state.progress(running.key, outputs / BLOCK_TOKENS, this.#now)
  }

  #ended(sequence: Sequence): void {
    const running = this.#running.get(sequence)
    this.#running.delete(sequence)
    if (running === undefined || running.hasEnded) return
    const { key, promptTokens, outputTokens, blocks } = running
    if (running.leg === 'prefill') {
      this.#state.legDone(key, { legRole: 'prefill', stages: {} }, this.#now)
      // The other engine reads its blocks.
      running.first.readByRemote(sequence, this.#now)
      running.leg = 'decode'
      running.sequence = running.decode.submit({ promptTokens, outputTokens, blocks, remote: true }, this.#now)
      this.#running.set(running.sequence, running)
      return
    }
    const cachedTokens = Math.max(0, sequence.cachedTokens)
    this.#release(running, {
      result: 'complete',
      usage: { promptTokens, completionTokens: outputTokens, cachedTokens },
    })
  }

  #leave(running: TrafficRequest): void {
    if (running.hasEnded) return
    this.#aborted += 1
    const engine = [...this.#engines.values()].find((one) => Array.from(one.live()).includes(running.sequence))
    engine?.abort(running.sequence, this.#now)
    this.#release(running, { result: 'client_gone' })
  }

  #release(running: TrafficRequest, outcome: Parameters<typeof readOutcome>[0]): void {
    running.hasEnded = true
    this.#state.release(running.key, readOutcome(outcome), this.#now)
    const cost = this.#state.costOf(running.key)
    if (cost === null || cost === 'open') throw new Error(`no cost of ${running.key}`)
    this.#costs.push({ tenant: running.tenant, cost })
  }

  #result(): TrafficResult {
    const byKey = new Map<string, number>()
    for (const { tenant, cost } of this.#costs) byKey.set(tenant, (byKey.get(tenant) ?? 0) + cost.engineS)
    return {
      byKey,
      busyS: Array.from(this.#engines.values()).reduce((sum, { counters }) => sum + counters.busyMs, 0) / 1000,
      savedS: this.#costs.reduce((sum, { cost }) => sum + cost.savedS, 0),
      aborted: this.#aborted,
      split: this.#split,
    }
  }
}

/** Keys of the prompt's full blocks: a third of the prompts share their first blocks. */
function blocksOf(shared: number, number: number, promptTokens: number): Uint32Array {
  const count = Math.floor(promptTokens / BLOCK_TOKENS)
  const blocks = new Uint32Array(2 * count)
  const common = Math.floor(count / 3)
  for (let at = 0; at < count; at++) {
    blocks[2 * at] = at < common ? at + 1 : 1000 + at
    blocks[2 * at + 1] = at < common ? shared + 1 : 1_000_000 + number
  }
  return blocks
}
