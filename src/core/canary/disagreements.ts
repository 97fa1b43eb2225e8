/** Which engine's answers stand out from those of its siblings. Pure; the engines are ids. */
import { type Count, tailProbability } from './beta-binomial.ts'

/** Two engines answered one prompt. */
interface Comparison {
  readonly engines: readonly [string, string]
  readonly agree: boolean
}

/** Number of comparisons kept. */
const KEPT = 512
/** An engine stands out if its disagreements are less likely than this at the rate of the others. */
const STANDS_OUT = 1e-6
/** It no longer does if its latest disagreements are as likely as this. */
const FITS_AGAIN = 0.1
/** Number of latest comparisons that show that an engine fits again. */
const LATEST = 24

/** Comparisons of an engine. */
interface EngineCount extends Count {
  /** Since its disagreements stand out. */
  readonly standsOut: boolean
}

/**
 * Each disagreement counts for both engines. An engine is measured against the comparisons that it has no part in, so
 * a pool of two engines shows that they disagree, and not which of them is wrong.
 */
export class Disagreements {
  #comparisons: Comparison[] = []
  readonly #standing = new Set<string>()

  /** Records a comparison. Returns the engine that begins or ceases to stand out; null: none. */
  record(one: string, other: string, agree: boolean): string | null {
    this.#comparisons.push({ engines: [one, other], agree })
    if (this.#comparisons.length > KEPT) this.#comparisons.shift()
    return [one, other].find((engine) => this.#fitsAgain(engine)) ?? this.#next()
  }

  count(engine: string): EngineCount {
    return { ...countOf(this.#comparisons.filter(hasPart(engine))), standsOut: this.#standing.has(engine) }
  }

  /** The engine has restarted, or left. */
  forget(engine: string): void {
    this.#comparisons = this.#comparisons.filter((one) => !hasPart(engine)(one))
    this.#standing.delete(engine)
  }

  /** Of the engines that fit, the one whose disagreements are least likely comes first: it explains those of others. */
  #next(): string | null {
    const fitting = this.#comparisons.filter(({ engines }) => engines.every((one) => !this.#standing.has(one)))
    let [limit, found]: [number, string | null] = [STANDS_OUT, null]
    for (const engine of new Set(fitting.flatMap(({ engines }) => engines))) {
      const likely = likelihood(fitting, engine)
      if (likely < limit) [limit, found] = [likely, engine]
    }
    if (found !== null) this.#standing.add(found)
    return found
  }

  #fitsAgain(engine: string): boolean {
    if (!this.#standing.has(engine)) return false
    const isOther = (one: string): boolean => one !== engine && this.#standing.has(one)
    const comparisons = this.#comparisons.filter(({ engines }) => !engines.some(isOther))
    const latest = comparisons.filter(hasPart(engine)).slice(-LATEST)
    const others = comparisons.filter((one) => !hasPart(engine)(one))
    if (latest.length < LATEST || likelihood([...latest, ...others], engine) < FITS_AGAIN) return false
    this.forget(engine)
    return true
  }
}

/** Probability of so many disagreements of an engine at the rate of the comparisons in which it has no part. */
function likelihood(comparisons: readonly Comparison[], engine: string): number {
  const has = hasPart(engine)
  const own = countOf(comparisons.filter(has))
  if (own.hits === 0) return 1
  return tailProbability(own, countOf(comparisons.filter((one) => !has(one))))
}

const hasPart =
  (engine: string) =>
  ({ engines }: Comparison): boolean =>
    engines.includes(engine)

const countOf = (comparisons: readonly Comparison[]): Count => ({
  of: comparisons.length,
  hits: comparisons.filter(({ agree }) => !agree).length,
})
