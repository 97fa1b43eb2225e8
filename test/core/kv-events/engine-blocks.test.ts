import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type EngineBlock, EngineBlocks } from '../../../src/core/kv-events/engine-blocks.ts'

/** Engine blocks form a tree: each continues a parent, and three form one block of the pool. */
const PARTS = 3

function world() {
  const held = new Set<number>()
  const known = new EngineBlocks({
    hold: (lo) => void held.add(lo),
    drop: (lo) => void held.delete(lo),
    clear: () => held.clear(),
  })
  const copies = new Map<number, number>()
  const parentOf = (block: number) => (block < 3 ? null : Math.floor(block / 3) - 1)
  const depth = (block: number): number => (parentOf(block) === null ? 1 : depth(parentOf(block)!) + 1)
  const add = (block: number) => {
    const parent = parentOf(block)
    const before: EngineBlock | null | undefined = parent === null ? null : known.get(`${parent}`)
    if (before === undefined) return
    known.add(`${block}`, { lo: block, hi: 0 }, { open: depth(block) % PARTS, before })
    copies.set(block, (copies.get(block) ?? 0) + 1)
  }
  const remove = (block: number) => {
    known.remove(`${block}`)
    const left = (copies.get(block) ?? 0) - 1
    if (left > 0) copies.set(block, left)
    else copies.delete(block)
  }
  const isWhole = (block: number): boolean =>
    copies.has(block) && (depth(block) % PARTS === 1 || isWhole(parentOf(block)!))
  return {
    known,
    held,
    copies,
    add,
    remove,
    whole: () => [...copies.keys()].filter((block) => depth(block) % PARTS === 0 && isWhole(block)),
  }
}

const step = fc.record({ add: fc.boolean(), block: fc.integer({ min: 0, max: 200 }), down: fc.boolean() })

describe('known blocks of an engine', () => {
  it('known blocks of an engine are exactly the complete blocks of the pool, in memory bounded by the number of blocks', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const { known, held, copies, add, remove, whole } = world()
        for (const { add: adds, block, down } of steps) {
          if (!adds) remove(block)
          else {
            const way = [block]
            for (let at = block; at >= 3;) way.unshift((at = Math.floor(at / 3) - 1))
            for (const one of down ? way : [block]) add(one)
          }
          expect([...held].sort()).toEqual(whole().sort())
          expect(known.size).toBeLessThanOrEqual(copies.size * PARTS)
        }
        for (const block of copies.keys())
          for (let left = copies.get(block)!; left > 0; left--) known.remove(`${block}`)
        expect([known.size, held.size]).toEqual([0, 0])
      }),
      { numRuns: 400 },
    )
  })
})
