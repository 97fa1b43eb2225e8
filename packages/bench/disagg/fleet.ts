/** Prefill and decode engines in virtual time, placed by the gateway's own pool state. */
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { EngineSpec, PoolConfig, SplitConfig } from '../../../src/core/contract/pool-config.ts'
import { PAYLOAD_VERSION } from '../../../src/core/contract/payload-version.ts'
import type { Placement } from '../../../src/core/contract/placement.ts'
import type { Usage } from '../../../src/core/contract/outcome.ts'
import { EngineModel } from '../../simulator/src/engine-model.ts'
import type { Profile } from '../../simulator/src/profiles.ts'
import type { Sequence, SequenceSpec } from '../../simulator/src/sequence.ts'

export interface Shape {
  readonly name: string
  readonly prefill: number
  readonly decode: number
}

export interface FleetRequest {
  readonly at: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** Chained keys of the full blocks of the prompt and of the output. */
  readonly blocks: Uint32Array
}

/** Times in ms. */
export interface RequestLatency {
  readonly ttft: number
  /** Mean gap between two tokens. */
  readonly itl: number
  /** Longest gap between two tokens. */
  readonly stall: number
  readonly endToEnd: number
  readonly endedAt: number
  readonly split: boolean
  readonly ask: FleetRequest
  /** Engine of the response. */
  readonly engine: string
  /** Prompt tokens in its own prefix cache. */
  readonly cachedTokens: number
}

interface Live {
  readonly ask: FleetRequest
  readonly key: string
  readonly placement: Placement
  readonly decodeAt: number
  readonly prefill: { readonly model: EngineModel; readonly sequence: Sequence } | null
}

/**
 * All engines are equal. `mode` whole: none has a role, so every engine does both, as the same machines do without a
 * split.
 */
export class SplitFleet {
  readonly served: RequestLatency[] = []
  readonly #profile: Profile
  readonly #state: PoolState
  readonly #models = new Map<string, EngineModel>()
  readonly #ends = new Map<Sequence, (at: number) => void>()
  readonly #live = new Map<Sequence, Live>()
  #requests = 0
  #now = 0

  constructor(profile: Profile, shape: Shape, split: SplitConfig | null, random: () => number) {
    this.#profile = profile
    this.#state = new PoolState({ random, epoch: 'bench' })
    const roles =
      split === null
        ? Array<'any'>(shape.prefill + shape.decode).fill('any')
        : [...Array<'prefill'>(shape.prefill).fill('prefill'), ...Array<'decode'>(shape.decode).fill('decode')]
    const engines = roles.map((role, at) => specOf(`${role}${at}`, role, profile))
    for (const { id } of engines) this.#models.set(id, this.#model())
    this.#state.configure(
      1,
      poolOf(engines, split ?? { mode: 'never', thresholdTokens: 0, fallback: 'decode_only' }, profile),
      0,
    )
  }

  /** Serves them all, in order of arrival. */
  run(asks: readonly FleetRequest[]): void {
    for (const ask of asks) {
      this.#until(ask.at)
      this.#admit(ask)
    }
    this.#until(Infinity)
  }

  #until(end: number): void {
    for (;;) {
      let next: EngineModel | null = null
      let at = Infinity
      for (const model of this.#models.values()) {
        const due = model.nextEventAt()
        if (due < at) [next, at] = [model, due]
      }
      if (next === null || at > end) break
      this.#now = Math.max(this.#now, at)
      next.advance(this.#now)
    }
    if (end !== Infinity) this.#now = Math.max(this.#now, end)
  }

  #model(): EngineModel {
    return new EngineModel(this.#profile, {
      token: (sequence, at) => this.#token(sequence, at),
      ended: (sequence, at) => {
        this.#ends.get(sequence)?.(at)
        this.#ends.delete(sequence)
      },
    })
  }

  #admit(ask: FleetRequest): void {
    const now = this.#now
    const admitted = this.#state.admit(this.#admission(ask), now)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    const { placement, key } = admitted
    const { promptTokens, outputTokens, blocks } = ask
    const spec: SequenceSpec = { promptTokens, outputTokens, blocks }
    if (placement.kind !== 'split') {
      this.#decode(
        { ask, key, placement, decodeAt: now, prefill: null },
        'engine' in placement ? placement.engine : placement.decode,
        spec,
      )
      return
    }
    const model = this.#models.get(placement.prefill)!
    const sequence = model.submit({ ...spec, outputTokens: 1, hold: true }, now)
    this.#ends.set(sequence, (at) => {
      this.#state.legDone(key, { legRole: 'prefill', stages: { prefill_leg: at - now } }, at)
      this.#now = at
      this.#decode({ ask, key, placement, decodeAt: at, prefill: { model, sequence } }, placement.decode, {
        ...spec,
        remote: true,
      })
    })
  }

  #decode(live: Live, engine: string, spec: SequenceSpec): void {
    const sequence = this.#models.get(engine)!.submit(spec, this.#now)
    this.#live.set(sequence, live)
    this.#ends.set(sequence, (at) => this.#ended(sequence, live, at))
  }

  #token(sequence: Sequence, at: number): void {
    const live = this.#live.get(sequence)
    if (live === undefined) return
    const { ask, key, prefill, decodeAt } = live
    const { blockTokens } = this.#profile.limits
    if (sequence.outputs === 1) {
      prefill?.model.readByRemote(prefill.sequence, at)
      this.#state.firstToken(key, { ttft: at - ask.at, first_byte: at - decodeAt }, at)
    } else if (sequence.outputs % blockTokens === 0) this.#state.progress(key, sequence.outputs / blockTokens, at)
  }

  #ended(sequence: Sequence, { ask, key, placement }: Live, at: number): void {
    this.#live.delete(sequence)
    const usage: Usage = {
      promptTokens: ask.promptTokens,
      completionTokens: sequence.outputs,
      cachedTokens: Math.max(0, sequence.cachedTokens),
    }
    const ttft = sequence.firstTokenAt - ask.at
    this.#state.release(
      key,
      {
        version: PAYLOAD_VERSION,
        result: 'complete',
        failure: null,
        status: 200,
        usage,
        outputEvents: sequence.outputs,
        stages: { ttft },
      },
      at,
    )
    const gaps = Math.max(1, sequence.outputs - 1)
    this.served.push({
      ttft,
      itl: (sequence.lastTokenAt - sequence.firstTokenAt) / gaps,
      stall: sequence.longestGapMs,
      endToEnd: at - ask.at,
      endedAt: at,
      split: placement.kind === 'split',
      ask,
      engine: 'engine' in placement ? placement.engine : placement.decode,
      cachedTokens: Math.max(0, sequence.cachedTokens),
    })
  }

  #admission({ promptTokens, outputTokens, blocks }: FleetRequest): Admission {
    const full = Math.floor(promptTokens / this.#profile.limits.blockTokens)
    const request = {
      version: PAYLOAD_VERSION,
      id: String(this.#requests++),
      configVersion: 1,
      model: 'bench',
      adapter: null,
      tokenSource: 'exact',
      session: null,
      priority: 0,
    } as const
    return {
      ...request,
      promptTokens,
      blocks: blocks.subarray(0, 2 * full),
      expectedOutputTokens: outputTokens,
      tenant: '',
      overrides: null,
      hints: null,
      unsplittable: null,
      encodeItems: 0,
      attempt: 0,
      avoid: [],
    }
  }
}

function specOf(id: string, role: EngineSpec['role'], { limits }: Profile): EngineSpec {
  return {
    id,
    role,
    models: null,
    labels: {},
    weight: 1,
    maxInFlight: null,
    prefixCaching: 'on',
    cacheBlocks: limits.cacheBlocks,
    rttMs: 0,
    profile: null,
  }
}

function poolOf(engines: readonly EngineSpec[], split: SplitConfig, { limits }: Profile): PoolConfig {
  return {
    cluster: 'bench',
    pool: 'bench',
    blockTokens: limits.blockTokens,
    policy: { name: 'predicted', options: {} },
    shadow: null,
    split,
    leaseMs: 1e12,
    retry: { share: 0, minPerS: 0 },
    circuit: { failures: 1, openMs: 1 },
    statsIntervalMs: 1e12,
    indexEntries: 2_000_000,
    engines,
  }
}
