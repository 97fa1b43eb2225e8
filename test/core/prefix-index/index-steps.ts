import * as fc from 'fast-check'
import { type Pin, PrefixIndex } from '../../../src/core/prefix-index/prefix-index.ts'
import { chain } from './block-chains.ts'
import { NaiveIndex, type NaivePin } from './naive-index.ts'

export type Step =
  | { readonly do: 'pin'; readonly engine: number; readonly content: readonly number[] }
  | { readonly do: 'release'; readonly which: number }
  | { readonly do: 'flush'; readonly engine: number }
  | { readonly do: 'capacity'; readonly engine: number; readonly blocks: number }

const engineNumber = fc.integer({ min: 0, max: 2 })
/** Few words, so that prompts share prefixes and fork anywhere; long runs of one word, so that runs exceed a block. */
export const anyPrompt = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 1, max: 6 })), { maxLength: 5 })
  .map((parts) => parts.flatMap(([word, times]) => Array.from({ length: times }, () => word)))
export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('pin' as const), engine: engineNumber, content: anyPrompt }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('release' as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('flush' as const), engine: engineNumber }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('capacity' as const),
      engine: engineNumber,
      blocks: fc.integer({ min: 0, max: 40 }),
    }),
  },
)

/** Creates an index of at most `cap` entries and its model, both with three engines: unbounded, 30 and 12 blocks. */
export function threeEngines(cap: number): { index: PrefixIndex; naive: NaiveIndex; pins: [Pin, NaivePin][] } {
  const index = new PrefixIndex(cap, Infinity)
  const naive = new NaiveIndex(cap)
  for (const capacity of [Infinity, 30, 12]) {
    index.addEngine(capacity)
    naive.addEngine(capacity)
  }
  return { index, naive, pins: [] }
}

/** Applies one step to the index and to its model. */
export function apply(one: Step, index: PrefixIndex, naive: NaiveIndex, pins: [Pin, NaivePin][]): void {
  if (one.do === 'pin')
    pins.push([index.pin(one.engine, chain(one.content), one.content.length), naive.pin(one.engine, one.content)])
  else if (one.do === 'flush') {
    index.flush(one.engine)
    naive.flush(one.engine)
  } else if (one.do === 'capacity') {
    index.setCapacity(one.engine, one.blocks)
    naive.setCapacity(one.engine, one.blocks)
  } else if (pins.length > 0) {
    const [[own, theirs]] = pins.splice(one.which % pins.length, 1) as [[Pin, NaivePin]]
    index.release(own)
    naive.release(theirs)
  }
}
