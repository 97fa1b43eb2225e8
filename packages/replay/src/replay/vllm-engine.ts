import { EngineModel, type EngineModelOptions, type FetchSource } from '../../../simulator/src/engine-model.ts'
import type { Profile } from '../../../simulator/src/profiles.ts'
import type { Sequence } from '../../../simulator/src/sequence.ts'
import { pairsOf, prefillMs } from '../../../simulator/src/step-cost.ts'
import type { EngineGauges, JobListener, ReplayEngine } from './replay-engine.ts'
import type { Job } from './job.ts'

/** LMCache as seen by one engine. */
export interface ExternalCache {
  loading(blocks: Uint32Array, cachedTokens: number): FetchSource | null
  store(blocks: Uint32Array, now: number): void
}

/** Factor on the time of all steps, by virtual time in ms. */
export type Slowdown = (now: number) => number

interface VllmEngineOptions {
  /** LMCache at this engine; absent or null: none. */
  readonly externalCache?: ExternalCache | null
  /** Absent or null: the speed of its profile. */
  readonly slowdown?: Slowdown | null
}

/** The model of a vLLM server in virtual time. Jobs are the specs of its sequences. */
export class VllmEngine implements ReplayEngine {
  readonly cacheBlocks: number
  readonly model: EngineModel
  readonly #listener: JobListener
  readonly #externalCache: ExternalCache | null
  readonly #slowdown: Slowdown | null
  /** Leading cached tokens of a waiting sequence at its arrival. */
  readonly #cachedAtArrival = new WeakMap<Sequence, number>()

  constructor(profile: Profile, listener: JobListener, options: VllmEngineOptions = {}) {
    const { externalCache = null, slowdown = null } = options
    this.#slowdown = slowdown
    this.#listener = listener
    this.#externalCache = externalCache
    this.cacheBlocks = profile.limits.cacheBlocks
    const { blockTokens } = profile.limits
    const source: Pick<EngineModelOptions, 'fetchSource'> =
      externalCache === null
        ? {}
        : {
            fetchSource: ({ blocks }, cachedTokens) => externalCache.loading(blocks, cachedTokens),
          }
    this.model = new EngineModel(
      { ...profile, ...source },
      {
        token: (sequence, at) => {
          const { outputs } = sequence
          if (outputs === 1) this.#firstToken(sequence, at)
          else if (outputs % blockTokens === 0) listener.progress(sequence.spec as Job, outputs / blockTokens, at)
        },
        ended: (sequence, at) => this.#ended(sequence, at),
      },
    )
  }

  get computedTokens(): number {
    const { promptTokens, cachedTokens, fetchedTokens } = this.model.counters
    return promptTokens - cachedTokens - fetchedTokens
  }

  submit(job: Job, now: number): void {
    this.#setSpeed(now)
    const cached = this.exactCachedTokens(job)
    this.#cachedAtArrival.set(this.model.submit(job, now), cached)
  }

  nextEventAt(): number {
    return this.model.nextEventAt()
  }

  advance(now: number): void {
    this.#setSpeed(now)
    this.model.advance(now)
  }

  gauges(): EngineGauges {
    return { running: this.model.running, waiting: this.model.waiting, kvUsage: this.model.usage }
  }

  exactCachedTokens(job: Job): number {
    const { pool, limits } = this.model
    const { blocks } = job
    const max = Math.min(blocks.length >> 1, Math.floor((job.promptTokens - 1) / limits.blockTokens))
    let hits = 0
    while (hits < max && pool.find(blocks[hits * 2]!, blocks[hits * 2 + 1]!) >= 0) hits += 1
    // Blocks that earlier requests are about to compute will be cached too.
    for (const { spec, outputs } of this.model.live())
      if (outputs === 0) hits = Math.max(hits, common(blocks, spec.blocks, max))
    return hits * limits.blockTokens
  }

  /** Steps that start from now on have the speed of this time. */
  #setSpeed(now: number): void {
    if (this.#slowdown !== null) this.model.slowdown = this.#slowdown(now)
  }

  exactTtftMs(job: Job, now: number): number {
    this.#setSpeed(now)
    const cachedTokens = this.exactCachedTokens(job)
    return this.#ttftMs(job, now, {
      cachedTokens,
      loading: this.#externalCache?.loading(job.blocks, cachedTokens) ?? null,
    })
  }

  exactColdTtftMs(job: Job, now: number): number {
    return this.#ttftMs(job, now, { cachedTokens: 0, loading: null })
  }

  /** Work ahead of the job and its own, in steps that the running batch shares, plus the wait for memory. */
  #ttftMs(job: Job, now: number, { cachedTokens, loading }: PromptStart): number {
    const { costModel, limits, pool } = this.model
    const there = Math.min(job.promptTokens - 1, Math.max(cachedTokens, loading?.tokens ?? 0))
    let tokens = job.promptTokens - there
    let pairs = pairsOf(job.promptTokens, there)
    let decoding = 0
    let context = 0
    let blocks = Math.ceil((job.promptTokens + 1 - cachedTokens) / limits.blockTokens)
    const leaving: { readonly inTokens: number; readonly blocks: number }[] = []
    for (const sequence of this.model.live()) {
      const { promptTokens, outputTokens } = sequence.spec
      if (sequence.outputs > 0 && sequence.state === 'running') {
        decoding += 1
        context += sequence.tokens
        leaving.push({ inTokens: outputTokens - sequence.outputs, blocks: sequence.tableLength })
        continue
      }
      const done =
        sequence.state === 'running' ? sequence.computed + sequence.chunk : (this.#cachedAtArrival.get(sequence) ?? 0)
      tokens += promptTokens - done
      pairs += pairsOf(promptTokens, done)
      if (sequence.state !== 'running') blocks += Math.ceil((promptTokens + 1 - done) / limits.blockTokens)
    }
    const stepMs = costModel.stepMs + costModel.decodeSequenceMs * decoding + costModel.decodeContextTokenMs * context
    const stepEndsAt = this.model.nextEventAt()
    const currentMs = stepEndsAt === Infinity ? 0 : Math.max(0, stepEndsAt - now)
    const workMs = prefillMs(
      costModel,
      { tokens, pairs, promptTokens: job.promptTokens },
      Math.max(1, limits.maxNumBatchedTokens - decoding),
      stepMs,
    )
    const laterMs = (loading?.ms ?? 0) + workMs + roomMs(blocks - pool.freeCount, leaving, stepMs)
    return currentMs + laterMs * this.model.slowdown
  }

  #firstToken(sequence: Sequence, at: number): void {
    const job = sequence.spec as Job
    // The decode leg of a split fetched its prompt. Its cached tokens were cached at the prefill engine.
    if (!job.remote)
      job.cachedTokens = Math.min(job.promptTokens - 1, Math.max(0, sequence.cachedTokens) + sequence.fetchedTokens)
    this.#externalCache?.store(job.blocks, at)
    this.#listener.firstToken(job, at)
  }

  #ended(sequence: Sequence, at: number): void {
    const job = sequence.spec as Job
    job.preemptions += sequence.preemptions
    job.longestGapMs = sequence.longestGapMs
    this.#listener.ended(job, at)
  }
}

interface PromptStart {
  readonly cachedTokens: number
  readonly loading: FetchSource | null
}

function common(one: Uint32Array, other: Uint32Array, max: number): number {
  const limit = Math.min(max, other.length >> 1)
  let at = 0
  while (at < limit && one[at * 2] === other[at * 2] && one[at * 2 + 1] === other[at * 2 + 1]) at += 1
  return at
}

/** Time until enough running sequences have ended to free the missing blocks. */
function roomMs(
  missing: number,
  leaving: { readonly inTokens: number; readonly blocks: number }[],
  stepMs: number,
): number {
  if (missing <= 0) return 0
  leaving.sort((one, other) => one.inTokens - other.inTokens)
  let freed = 0
  for (const { inTokens, blocks } of leaving) {
    freed += blocks
    if (freed >= missing) return inTokens * stepMs
  }
  return (leaving.at(-1)?.inTokens ?? 0) * stepMs
}
