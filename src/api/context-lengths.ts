/** Longest contexts of models, as their engines report them or the configuration says. */
import { digestsOf, type FleetParts } from './fleet-digests.ts'
import type { ServedModel } from './model-registry.ts'
import type { PoolRoute } from '../origin/pool-route.ts'

/** Age, ms, at which the lengths are read again. */
const FRESH_MS = 10_000
/** The same while some are unknown. */
const INCOMPLETE_MS = 500

type LengthParts = Pick<FleetParts, 'models'> & { readonly ports: FleetParts['ports'] & { now(): number } }

export class ContextLengths {
  readonly #parts: LengthParts
  // No promise: on Workers a request cannot wait for the I/O of another one.
  #lengths: ReadonlyMap<PoolRoute, number> = new Map()
  #readAt = -Infinity

  constructor(parts: LengthParts) {
    this.#parts = parts
  }

  /** Length by model: the largest of its engines. null: no engine has reported one. */
  async read(): Promise<(model: ServedModel) => number | null> {
    const now = this.#parts.ports.now()
    const isComplete = this.#lengths.size === this.#parts.models.routes.length
    if (now - this.#readAt >= (isComplete ? FRESH_MS : INCOMPLETE_MS)) {
      this.#lengths = await this.#ofPools()
      this.#readAt = now
    }
    return ({ routes }) => largest(routes.map((route) => this.#lengths.get(route) ?? null))
  }

  async #ofPools(): Promise<ReadonlyMap<PoolRoute, number>> {
    const { models } = this.#parts
    const digests = await digestsOf(this.#parts)
    return new Map(
      models.routes.flatMap((route, at): (readonly [PoolRoute, number])[] => {
        const length = largest((digests[at]?.engines ?? []).map(({ contextTokens }) => contextTokens ?? null))
        return length === null ? [] : [[route, length]]
      }),
    )
  }
}

function largest(lengths: readonly (number | null)[]): number | null {
  let max: number | null = null
  for (const length of lengths) if (length !== null && length > (max ?? 0)) max = length
  return max
}
