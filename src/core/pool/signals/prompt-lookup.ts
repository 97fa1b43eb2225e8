import type { Admission } from '../../contract/admission.ts'
import { type PromptShape, shapeOf } from '../../prefix-index/active-blocks.ts'
import { tokensPerBlock } from '../block-tokens.ts'
import type { EngineRef } from '../booking-ref.ts'
import { byEngine, type CachedTokens, NO_HINT, NO_HINTS, NOTHING_CACHED } from './cached-tokens.ts'
import type { EngineEstimators } from '../estimators/engine-estimators.ts'
import type { SignalSources } from './signal-sources.ts'

/** Tokens of one prompt in the caches of engines. The prompt is looked up once for all engines. */
export class PromptLookup {
  readonly shape: PromptShape
  readonly #sources: SignalSources
  readonly #admission: Admission
  readonly #blockTokens: number
  readonly #hints: ReadonlyMap<string, typeof NO_HINT>
  readonly #known: (CachedTokens | undefined)[] = []
  #matched = false

  constructor(sources: SignalSources, admission: Admission) {
    this.#sources = sources
    this.#admission = admission
    this.shape = shapeOf(admission.blocks, admission.promptTokens, sources.blockTokens)
    this.#blockTokens = tokensPerBlock(admission, sources.blockTokens)
    this.#hints =
      admission.hints === null || admission.hints.length === 0 || admission.computesAll
        ? NO_HINTS
        : byEngine(admission.hints)
  }

  /** An external cache has reported tokens of the prompt. */
  get hasHints(): boolean {
    return this.#hints.size > 0
  }

  /** Returns the cached tokens that routing assumes. */
  cached(engine: EngineRef): CachedTokens {
    // Memoised: used by two signals and by the booking.
    return (this.#known[engine.slot] ??= this.#cached(engine, this.#creditedTokens(engine)))
  }

  /** Returns the cached tokens by the pool's index alone. */
  cachedByIndex(engine: EngineRef): number {
    return this.#reused(engine, this.#creditedTokens(engine))
  }

  /** Returns the cached tokens by the reports of external caches alone. */
  cachedByHints(engine: EngineRef): number {
    return this.#cached(engine, 0).total
  }

  /** Whether the request shares blocks with others on the engine. */
  shares(engine: EngineRef): boolean {
    return !this.#admission.computesAll && engine.estimators.caches(engine.spec)
  }

  /** Returns the blocks in the index, trusted or not. */
  indexBlocks(engine: EngineRef): number {
    this.match()
    return this.#sources.index.cached[engine.estimators.number]!
  }

  /** Returns the prompt tokens in this many blocks, as a whole number so that sums do not drift. */
  tokensOf(blocks: number): number {
    return Math.floor(blocks * this.#blockTokens)
  }

  /** Looks the prompt up in the index, unless it was. */
  match(): void {
    if (this.#matched) return
    this.#sources.index.match(this.shape.blocks, this.shape.blockCount)
    this.#matched = true
  }

  /** Tokens of the index that are trusted for the engine. */
  #creditedTokens(engine: EngineRef): number {
    const { estimators } = engine
    return this.shares(engine) && !estimators.cacheFeedback.silentMiss ? this.#indexTokens(estimators) : 0
  }

  #indexTokens(estimators: EngineEstimators): number {
    if (this.#admission.computesAll) return 0
    this.match()
    return this.#isCold(estimators) ? 0 : this.tokensOf(this.#sources.index.cached[estimators.number]!)
  }

  /** Whether the blocks are those of an adapter that the engine has unloaded since. KV events show this themselves. */
  #isCold({ adapters, feed, number }: EngineEstimators): boolean {
    const { adapter } = this.#admission
    if (adapter === null || feed !== null) return false
    return adapters.isCold(adapter, this.#sources.index.lastUsed(number))
  }

  /** Maximum reusable tokens: an engine always computes the last token of a prompt. */
  get #maxTokens(): number {
    return Math.max(0, this.#admission.promptTokens - 1)
  }

  /** Reusable tokens of the engine's own cache: whole blocks only. */
  #reused(engine: EngineRef, tokens: number): number {
    const { estimators } = engine
    const whole = estimators.wholeBlocks(Math.min(this.#maxTokens, tokens))
    return estimators.cacheFeedback.redoesLast ? Math.max(0, whole - estimators.engineBlockTokens) : whole
  }

  #cached(engine: EngineRef, indexTokens: number): CachedTokens {
    const hint = this.#hints.get(engine.spec.id) ?? NO_HINT
    const device = this.#reused(engine, Math.max(indexTokens, hint.device))
    if (hint === NO_HINT) return device === 0 ? NOTHING_CACHED : { total: device, host: 0, disk: 0, remote: 0 }
    const limit = this.#maxTokens
    const host = Math.max(0, Math.min(limit, hint.host) - device)
    const disk = Math.max(0, Math.min(limit, hint.disk) - device - host)
    const remote = Math.max(0, Math.min(limit, hint.remote) - device - host - disk)
    return { total: device + host + disk + remote, host, disk, remote }
  }
}
