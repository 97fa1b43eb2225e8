import { sortPlaces } from '../../routing/sort-places.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'

let places = new Int32Array(64)

let works = new Float64Array(64)

/** Sorts by `recentWork`; equal engines in rotating order, so that an idle fleet is used evenly. */
export function tieOrder(engines: readonly EngineState[], rotation: number): EngineState[] {
  const count = engines.length
  if (places.length < count) {
    places = new Int32Array(2 * count)
    works = new Float64Array(2 * count)
  }
  for (let at = 0; at < count; at++) {
    places[at] = (rotation + at) % count
    works[at] = engines[at]!.signals.recentWork
  }
  sortPlaces(places, works, 0, count)
  const inOrder = engines.slice()
  for (let at = 0; at < count; at++) inOrder[at] = engines[places[at]!]!
  return inOrder
}
