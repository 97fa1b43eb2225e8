import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ActiveBlocks,
  type LiveRequest,
  type PromptShape,
  shapeOf,
} from '../../../src/core/prefix-index/active-blocks.ts'
import { PrefixIndex } from '../../../src/core/prefix-index/prefix-index.ts'
import { chain, range } from './block-chains.ts'
import { ActiveSequences } from './dynamo-1731.ts'
import { NaiveIndex } from './naive-index.ts'

const BLOCK_TOKENS = 4

function ledger() {
  const index = new PrefixIndex(100_000)
  const active = new ActiveBlocks(index)
  const engine = index.addEngine()
  const potential = (prompt: PromptShape, reuse = true) => {
    index.match(prompt.blocks, prompt.blockCount)
    return active.active(engine) + active.newBlocks(engine, prompt, reuse)
  }
  return { index, active, engine, potential }
}

const prompt = (content: readonly (string | number)[], tail = 0): PromptShape =>
  shapeOf(chain(content), content.length * BLOCK_TOKENS + tail, BLOCK_TOKENS)

describe('ActiveBlocks', () => {
  it('ActiveBlocks counts a block two requests share once, and frees it with the second', () => {
    const { active, engine } = ledger()
    const first = active.add(engine, prompt(['a', 'b', 'c']), true)
    const second = active.add(engine, prompt(['a', 'b', 'd', 'e']), true)
    expect(active.active(engine)).toBe(5)
    active.free(first)
    expect(active.active(engine)).toBe(4)
    active.free(second)
    expect(active.active(engine)).toBe(0)
  })

  // routing.md: for prompt [1,2,3,5] against live [1,2,4,5] the potential is 4 + 2 = 6.
  it('ActiveBlocks counts a block after a fork as new, whatever its content', () => {
    const { active, engine, potential } = ledger()
    active.add(engine, prompt([1, 2, 4, 5]), true)
    expect(potential(prompt([1, 2, 3, 5]))).toBe(6)
  })

  it('ActiveBlocks gives every request its own partial last block', () => {
    const { active, engine, potential } = ledger()
    active.add(engine, prompt(['a'], 3), true)
    expect(active.active(engine)).toBe(2)
    expect(potential(prompt(['a'], 1))).toBe(3)
  })

  it('ActiveBlocks counts every request in full if caching is off', () => {
    const { active, engine, potential } = ledger()
    const requests = [1, 2, 3].map(() => active.add(engine, prompt(range(0, 10)), false))
    expect(active.active(engine)).toBe(30)
    expect(potential(prompt(range(0, 10)), false)).toBe(40)
    for (const request of requests) active.free(request)
    expect(active.active(engine)).toBe(0)
  })

  it('reads output as a total: repeated and smaller values have no effect', () => {
    const { active, engine } = ledger()
    const request = active.add(engine, prompt(['a']), true)
    for (const blocks of [1, 3, 3, 2]) active.output(request, blocks)
    expect(active.active(engine)).toBe(4)
  })

  it('ActiveBlocks discounts blocks used only by a nearly finished request, and reverts the discount exactly', () => {
    const { active, engine } = ledger()
    const shared = active.add(engine, prompt(['a', 'b']), true)
    const ending = active.add(engine, prompt(['a', 'b', 'c', 'd']), true)
    active.output(ending, 2)
    active.decay(ending, 0.75)
    expect(active.active(engine)).toBe(2 + 4 * 0.25)
    active.decay(ending, 1 / 3)
    active.free(ending)
    expect(active.active(engine)).toBe(2)
    active.free(shared)
    expect(active.active(engine)).toBe(0)
  })

  it('ActiveBlocks counts blocks beyond the index’s capacity', () => {
    const index = new PrefixIndex(3)
    const active = new ActiveBlocks(index)
    const engine = index.addEngine()
    const requests = [1, 2].map((name) => active.add(engine, prompt([name, 'b', 'c', 'd', 'e'], 1), true))
    expect(active.active(engine)).toBe(12)
    for (const request of requests) active.free(request)
    expect(active.active(engine)).toBe(0)
  })

  it('ActiveBlocks agrees with the ledger of the pull request after any history of requests, output and ends', () => {
    const content = fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 8 })
    const step = fc.oneof(
      fc.record({ do: fc.constant('add' as const), content, tail: fc.integer({ min: 0, max: BLOCK_TOKENS - 1 }) }),
      fc.record({ do: fc.constant('push' as const), which: fc.nat(), tokens: fc.integer({ min: 1, max: 9 }) }),
      fc.record({ do: fc.constant('free' as const), which: fc.nat() }),
    )
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 50 }),
        content,
        fc.integer({ min: 0, max: 3 }),
        (steps, probe, probeTail) => {
          const { active, engine, potential } = ledger()
          const reference = new ActiveSequences(BLOCK_TOKENS)
          const live: { name: string; request: LiveRequest; tokens: number; out: number }[] = []
          for (const [at, one] of steps.entries()) {
            const name = `request ${at}`
            if (one.do === 'add') {
              const tokens = one.content.length * BLOCK_TOKENS + one.tail
              live.push({ name, request: active.add(engine, prompt(one.content, one.tail), true), tokens, out: 0 })
              reference.add(name, NaiveIndex.keys(one.content), tokens)
            } else if (live.length === 0) continue
            else if (one.do === 'push') {
              const target = live[one.which % live.length]!
              for (let token = 0; token < one.tokens; token++) reference.push(target.name)
              target.out += one.tokens
              const blocksOf = (tokens: number): number => Math.floor((tokens - 1) / BLOCK_TOKENS)
              active.output(target.request, blocksOf(target.tokens + target.out) - blocksOf(target.tokens))
            } else {
              const [target] = live.splice(one.which % live.length, 1)
              active.free(target!.request)
              reference.free(target!.name)
            }
            const tokens = probe.length * BLOCK_TOKENS + probeTail
            expect(active.active(engine)).toBe(reference.activeBlocks)
            expect(potential(prompt(probe, probeTail))).toBe(
              reference.activeBlocks + reference.newBlocks(NaiveIndex.keys(probe), tokens),
            )
          }
        },
      ),
      { numRuns: 300 },
    )
  })
})
