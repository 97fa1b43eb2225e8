/** Division of a pool's engines and prompts over several state objects (cells). */
import { SlidingCount } from '../sliding-count.ts'
import { type AffinityFields, AffinityKeys } from './affinity-keys.ts'
import { hashText } from './placement-hash.ts'
import { rendezvous, withinBound } from './rendezvous.ts'

/** Load of a cell relative to the mean from which its prompts go to their next cell. */
const LOAD_BOUND = 1.25
/** Window, ms, of the load. */
const WINDOW_MS = 2_000

/** Cell of an engine: its position in the sorted list modulo the number of cells. */
export function cellOf(engine: string, engines: readonly string[], cells: number): number {
  const sorted = [...engines].sort()
  return Math.max(0, sorted.indexOf(engine)) % cells
}

/**
 * Chooses a cell by session or first blocks, so that a prompt finds its cache, and by load, so that a popular prefix
 * does not fill one cell. The load is what this chooser has sent.
 */
export class CellChooser {
  readonly #cells: readonly { readonly id: string; readonly weight: 1; readonly recent: SlidingCount }[]
  readonly #keys = new AffinityKeys()

  constructor(cells: number) {
    this.#cells = Array.from({ length: cells }, (_, at) => ({
      id: String(at),
      weight: 1,
      recent: new SlidingCount(WINDOW_MS),
    }))
  }

  /** @param usable cells with an engine for the request @returns them in the order in which they are asked */
  order(admission: AffinityFields, usable: readonly number[], now: number): number[] {
    const key = this.#keys.keyOf(admission) ?? hashText(admission.id)
    const order = rendezvous(
      key,
      usable.map((at) => this.#cells[at]!),
    ).map((cell) => ({ ...cell, requests: cell.recent.count(now) }))
    return withinBound(order, LOAD_BOUND).map(({ id }) => Number(id))
  }

  /** Counts a request that is sent to a cell. */
  recordSent(cell: number, now: number): void {
    this.#cells[cell]!.recent.add(now)
  }
}
