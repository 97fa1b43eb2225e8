import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BlockPool } from '../../packages/simulator/src/block-pool.ts'

/** Model of the pool with plain lists. */
class NaivePool {
  readonly refs: number[]
  readonly names: (string | null)[]
  /** Free blocks, the next one first. */
  readonly free: number[]

  constructor(size: number) {
    this.refs = Array.from({ length: size }, () => 0)
    this.names = Array.from({ length: size }, () => null)
    this.free = Array.from({ length: size }, (_, block) => block)
  }

  take(): number {
    const block = this.free.shift()!
    this.names[block] = null
    this.refs[block] = 1
    return block
  }

  share(block: number): void {
    if (this.refs[block] === 0) this.free.splice(this.free.indexOf(block), 1)
    this.refs[block]! += 1
  }

  release(block: number): void {
    this.refs[block]! -= 1
    if (this.refs[block] === 0) this.free.push(block)
  }
}

type Action = { kind: 'take'; key: number } | { kind: 'share' | 'release'; pick: number } | { kind: 'clear' }

const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('take' as const), key: fc.integer({ min: 0, max: 9 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constantFrom('share' as const, 'release' as const), pick: fc.nat(1000) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'clear' as const }) },
)

describe('the block pool', () => {
  it('the block pool allocates, shares, releases and finds blocks as a plain list does', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.array(action, { maxLength: 200 }), (size, actions) => {
        const pool = new BlockPool(size)
        const naive = new NaivePool(size)
        for (const step of actions) {
          if (step.kind === 'take') {
            if (naive.free.length === 0) {
              expect(() => pool.take()).toThrow(RangeError)
              continue
            }
            const block = pool.take()
            expect(block).toBe(naive.take())
            pool.name(block, step.key, step.key ^ 5)
            naive.names[block] = String(step.key)
          } else if (step.kind === 'clear') {
            pool.clear()
            naive.names.fill(null)
          } else {
            const held = naive.refs.flatMap((count, block) => (step.kind === 'share' || count > 0 ? [block] : []))
            if (held.length === 0) continue
            const block = held[step.pick % held.length]!
            pool[step.kind](block)
            naive[step.kind](block)
          }
          compare(pool, naive)
        }
      }),
    )
  })

  it('the block pool rejects releasing a block that is not allocated', () => {
    const pool = new BlockPool(2)
    const block = pool.take()
    pool.release(block)
    expect(() => pool.release(block)).toThrow('released more often than referenced')
  })
})

function compare(pool: BlockPool, naive: NaivePool): void {
  expect(pool.freeCount).toBe(naive.free.length)
  expect(pool.namedCount).toBe(naive.names.filter((name) => name !== null).length)
  naive.refs.forEach((count, block) => expect(pool.references(block)).toBe(count))
  for (let key = 0; key < 10; key += 1) {
    const found = pool.find(key, key ^ 5)
    // Two blocks can have the same content; either is correct.
    if (found < 0) expect(naive.names).not.toContain(String(key))
    else expect(naive.names[found]).toBe(String(key))
  }
}
