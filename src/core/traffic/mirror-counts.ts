import { type CountsByTarget, type EndedRequest, withTargetRequest } from './target-counts.ts'

/** Where the requests of a model are repeated. */
export interface Mirror {
  /** Pool or weighted model whose requests are repeated. */
  readonly name: string
  /** Model that gets the repeated ones. */
  readonly to: string
}

/** A repeated request for which there was no room. */
const DROPPED: EndedRequest = { engine: null, status: 429, result: 'refused', stages: {}, durationMs: 0, stream: false }

/**
 * Results of repeated requests beside those of their originals, since the start. The originals are counted below the
 * name of their own model.
 */
export class MirrorCounts {
  #counts: CountsByTarget = {}
  /** Original requests, by their exchanges. */
  readonly #originals = new WeakMap<object, Mirror>()

  /** Registers an original, whose end will be counted. */
  follow(original: object, mirror: Mirror): void {
    this.#originals.set(original, mirror)
  }

  /** Counts the end of a request if it is an original. `outputTokens`: null if unknown. */
  ended(exchange: object, record: EndedRequest, outputTokens: number | null): void {
    const mirror = this.#originals.get(exchange)
    if (mirror !== undefined) this.#count([mirror.name, mirror.name], record, outputTokens)
  }

  /** Counts a repeated request that has ended. */
  repeated({ name, to }: Mirror, record: EndedRequest, outputTokens: number | null): void {
    this.#count([name, to], record, outputTokens)
  }

  /** Counts a repeated request that was not sent, or that a drain has ended. */
  dropped(mirror: Mirror): void {
    this.repeated(mirror, DROPPED, null)
  }

  get counts(): CountsByTarget {
    return this.#counts
  }

  #count(target: readonly [string, string], record: EndedRequest, outputTokens: number | null): void {
    this.#counts = withTargetRequest(this.#counts, target, record, outputTokens)
  }
}
