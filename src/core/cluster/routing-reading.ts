import { tokenSeconds } from '../latency/decode.ts'
import { prefillSeconds } from '../latency/law.ts'
import { TIER_TOKEN_US } from '../latency/tiers.ts'
import type { Signal, Signals } from '../routing/policy.ts'
import { type ActiveBlocks, type PromptShape, shapeOf } from './active-blocks.ts'
import type { EngineRef, Forecast, Reading } from './books.ts'
import type { Admission, CacheHint } from './contract.ts'
import type { EngineBook } from './engine-book.ts'
import type { PrefixIndex } from './prefix-index.ts'

/** What a reading reads from. */
export interface Sources {
  readonly index: PrefixIndex
  readonly active: ActiveBlocks
  readonly blockTokens: number
  readonly book: (engine: EngineRef) => EngineBook
}

/** Leading tokens of a prompt believed cached on an engine, and where. */
export interface CachedTokens {
  /** In all. */
  readonly total: number
  /** Those of `total` that lie beyond what the faster tiers have. */
  readonly host: number
  readonly disk: number
  readonly remote: number
}

const NOTHING_CACHED: CachedTokens = { total: 0, host: 0, disk: 0, remote: 0 }
const NO_HINT = { device: 0, host: 0, disk: 0, remote: 0 }

/** Signals for one request at one moment. The prompt is looked up once, for all engines. */
export class RoutingReading implements Reading {
  readonly #sources: Sources
  readonly #admission: Admission
  readonly #now: number
  readonly #shape: PromptShape
  readonly #hints: ReadonlyMap<string, typeof NO_HINT>
  readonly #known: (CachedTokens | undefined)[] = []
  #matched = false

  constructor(sources: Sources, admission: Admission, now: number) {
    this.#sources = sources
    this.#admission = admission
    this.#now = now
    this.#shape = shapeOf(admission.blocks, admission.promptTokens, sources.blockTokens)
    this.#hints = byEngine(admission.hints ?? [])
  }

  signal<S extends Signal>(signal: S, engine: EngineRef): Signals[S] | undefined {
    return this.reader(signal)(engine)
  }

  /** One signal of many engines. */
  reader<S extends Signal>(signal: S): (engine: EngineRef) => Signals[S] | undefined {
    return this.#reader(signal) as (engine: EngineRef) => Signals[S] | undefined
  }

  forecast(engine: EngineRef): Forecast {
    const book = this.#sources.book(engine)
    // Of decode engines too: what they already hold decides whether a split is worth it.
    const cached = this.#cached(engine, this.#indexTokens(book))
    const size = { promptTokens: this.#admission.promptTokens, cachedTokens: cached.total }
    const loadS = (cached.host * TIER_TOKEN_US.host + cached.disk * TIER_TOKEN_US.disk + cached.remote * TIER_TOKEN_US.remote) / 1e6
    const seconds = engine.spec.rttMs / 1000 + book.queue.seconds(this.#now) + prefillSeconds(book.law(this.#now), size) + loadS
    return { ttftMs: seconds * 1000, cachedTokens: cached.total, handOverMs: book.handOver.expectedMs(this.#admission.promptTokens) }
  }

  /** What routing counts on. */
  cached(engine: EngineRef): CachedTokens {
    // Four signals come from here, engine by engine for each of them.
    return (this.#known[engine.slot] ??= this.#credited(engine))
  }

  #credited(engine: EngineRef): CachedTokens {
    const book = this.#sources.book(engine)
    const credits = shares(book, engine) && !book.feedback.silentMiss
    return this.#cached(engine, credits ? this.#indexTokens(book) : 0)
  }

  /** What the index says, whether it is trusted or not. */
  indexBlocks(engine: EngineRef): number {
    this.#match()
    return this.#sources.index.cached[this.#sources.book(engine).number]!
  }

  get shape(): PromptShape {
    return this.#shape
  }

  #reader(signal: Signal): (engine: EngineRef) => Signals[Signal] | undefined {
    const { active, blockTokens } = this.#sources
    const { promptTokens, adapter, hints } = this.#admission
    const now = this.#now
    const of = this.#sources.book
    switch (signal) {
      case 'activeBlocks':
        return (engine) => active.active(of(engine).number) + this.#unseenBlocks(of(engine))
      case 'newActiveBlocks':
        this.#match()
        return (engine) => active.newBlocks(of(engine).number, this.#shape, shares(of(engine), engine))
      case 'cachedTokens':
        return promptTokens === 0 ? () => 0 : (engine) => this.cached(engine).total
      case 'slowTokens':
        return hints === null ? () => NOTHING_CACHED : (engine) => this.cached(engine)
      case 'lookupTokens':
        return hints === null ? () => undefined : (engine) => this.#cached(engine, 0).total
      case 'queuedPrefills':
        return (engine) => of(engine).queue.length
      case 'queuedPrefillTokens':
        return (engine) => of(engine).queue.newTokens
      case 'queuedWork':
        return (engine) => of(engine).queue.work
      case 'queuedPrefillS':
        return (engine) => of(engine).queue.seconds(now)
      case 'capacityBlocks':
        return (engine) => of(engine).capacity.declared ?? Infinity
      case 'law':
        return (engine) => of(engine).law(now)
      case 'confidence':
        return (engine) => of(engine).learner.confidence
      case 'decodeLaw':
        return (engine) => of(engine).decodeLaw(blockTokens, now)
      case 'warmth':
        return (engine) => of(engine).warmth(now)
      case 'adapterFit':
        return adapter === null ? () => 1 : (engine) => of(engine).adapters.fit(adapter)
      default:
        return () => undefined
    }
  }

  #unseenBlocks(book: EngineBook): number {
    if (!book.hasUnseen) return 0
    return book.unseenBlocks(this.#now, this.#sources.blockTokens, tokenSeconds(book.decodeLaw(this.#sources.blockTokens, this.#now), book.requests, 0))
  }

  #indexTokens(book: EngineBook): number {
    this.#match()
    return this.#sources.index.cached[book.number]! * this.#sources.blockTokens
  }

  #cached(engine: EngineRef, indexTokens: number): CachedTokens {
    // An engine computes at least the last token of a prompt, whatever it has cached, and reuses whole blocks only.
    const { engineBlockTokens } = this.#sources.book(engine)
    const most = Math.max(0, this.#admission.promptTokens - 1)
    const limit = most - (most % engineBlockTokens)
    const hint = this.#hints.get(engine.spec.id) ?? NO_HINT
    const device = Math.min(limit, Math.max(indexTokens, hint.device))
    if (hint === NO_HINT) return device === 0 ? NOTHING_CACHED : { total: device, host: 0, disk: 0, remote: 0 }
    const host = Math.max(0, Math.min(limit, hint.host) - device)
    const disk = Math.max(0, Math.min(limit, hint.disk) - device - host)
    const remote = Math.max(0, Math.min(limit, hint.remote) - device - host - disk)
    return { total: device + host + disk + remote, host, disk, remote }
  }

  #match(): void {
    if (this.#matched) return
    this.#sources.index.match(this.#shape.blocks, this.#shape.blockCount)
    this.#matched = true
  }
}

/** Does a request on the engine share blocks with others there? Decode engines get theirs by transfer, each its own. */
export function shares(book: EngineBook, engine: EngineRef): boolean {
  return engine.spec.role !== 'decode' && book.caches(engine.spec)
}

/** The longest match of each tier. Engines a lookup names and the pool does not know are simply never asked for. */
function byEngine(hints: readonly CacheHint[]): ReadonlyMap<string, typeof NO_HINT> {
  const found = new Map<string, typeof NO_HINT>()
  for (const { engine, tier, matchedTokens } of hints) {
    if (!(matchedTokens > 0)) continue
    const known = found.get(engine) ?? NO_HINT
    found.set(engine, { ...known, [tier]: Math.max(known[tier], matchedTokens) })
  }
  return found
}
