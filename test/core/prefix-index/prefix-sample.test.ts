import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LoadStats } from '../../../src/core/pool/load-stats.ts'
import { PoolLedger } from '../../../src/core/pool/ledger.ts'
import { PrefixIndex } from '../../../src/core/prefix-index/prefix-index.ts'
import type { KvEventDelta } from '../../../src/core/kv-events/event-delta.ts'
import { KvEventCursor } from '../../../src/core/kv-events/event-cursor.ts'
import { nextDepth } from '../../../src/core/prefix-index/prefix-filter.ts'
import { chain, range } from './block-chains.ts'
import { apply, step, threeEngines } from './index-steps.ts'
import type { NaiveIndex } from './naive-index.ts'

type Content = readonly (string | number)[]

/** Lanes of the prompt at sampled depths. */
function lanesOf(content: Content): number[] {
  const blocks = chain(content)
  const lanes: number[] = []
  for (let depth = 1; depth <= content.length; depth = nextDepth(depth)) lanes.push(blocks[depth * 2 - 2]!)
  return lanes
}

const sorted = (lanes: Iterable<number>): number[] => [...lanes].sort((a, b) => a - b)
const serve = (index: PrefixIndex, engine: number, content: Content) =>
  index.release(index.pin(engine, chain(content), content.length))
const pin = (index: PrefixIndex, engine: number, content: Content) => index.pin(engine, chain(content), content.length)

/** Every cached prefix of any engine, with or without blocks after it. */
function heldPrefixes(naive: NaiveIndex): Content[] {
  const keys = new Set(
    naive.engines.flatMap(({ blocks }) => [...blocks].flatMap(([key, { doomed }]) => (doomed ? [] : [key]))),
  )
  return [...keys].map((key) => key.split('/'))
}

describe('PrefixIndex.sample', () => {
  it('PrefixIndex.sample contains the engines’ blocks at sampled depths, all of them within the limit, after any history', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 60 }),
        fc.integer({ min: 20, max: 120 }),
        fc.integer({ min: 0, max: 12 }),
        (steps, cap, limit) => {
          const { index, naive, pins } = threeEngines(cap)
          for (const one of steps) {
            apply(one, index, naive, pins)
            const held = heldPrefixes(naive)
            const all = new Set(held.flatMap(lanesOf))
            expect(sorted(index.sample(10_000))).toEqual(sorted(all))
            const few = new Set(index.sample(limit))
            expect(few.size).toBeLessThanOrEqual(limit)
            for (const lane of few) expect(all).toContain(lane)
            // A sampled depth implies all smaller ones.
            for (const prefix of held) {
              const sampled = lanesOf(prefix).map((lane) => few.has(lane))
              expect(sampled.lastIndexOf(true)).toBe(
                sampled.includes(false) ? sampled.indexOf(false) - 1 : sampled.length - 1,
              )
            }
          }
        },
      ),
      { numRuns: 300 },
    )
  })

  it('PrefixIndex.sample contains live prefixes first, then the most recently used, of all engines', () => {
    const index = new PrefixIndex(10_000)
    const engines = [index.addEngine(), index.addEngine()] as const
    pin(index, engines[0], ['live', ...range(0, 7)])
    for (const at of range(0, 6)) serve(index, engines[at < 2 ? 0 : 1], [`${at}`, ...range(0, 7)])
    serve(index, engines[0], ['last', ...range(0, 7)])
    const newest = ['live', 'last', '5', '4', '3', '2', '1', '0'].map((name) => lanesOf([name, ...range(0, 7)]))
    for (const count of range(1, 8))
      expect(sorted(index.sample(6 * count))).toEqual(sorted(newest.slice(0, count).flat()))
  })

  it('PrefixIndex.sample alternates among engines for live prefixes', () => {
    const index = new PrefixIndex(10_000)
    const engines = range(0, 4).map(() => index.addEngine())
    for (const engine of engines) for (const at of range(0, 20)) pin(index, engine, [`${engine}.${at}`])
    const sample = new Set(index.sample(12))
    for (const engine of engines)
      expect(range(0, 20).filter((at) => sample.has(lanesOf([`${engine}.${at}`])[0]!))).toHaveLength(3)
  })

  it('PrefixIndex.sample includes a prompt to the depth of the engine with most of it, even if another used it later', () => {
    const index = new PrefixIndex(10_000)
    const [large, small] = [index.addEngine(), index.addEngine(4)]
    serve(index, large, range(0, 12))
    serve(index, small, range(0, 12))
    expect(sorted(index.sample(100))).toEqual(sorted(lanesOf(range(0, 12))))
  })

  it('PrefixIndex.sample includes the full depth of a conversation with a fork at every block', () => {
    const index = new PrefixIndex(1_000_000)
    const [engine, other] = [index.addEngine(), index.addEngine()]
    for (const at of range(1, 400)) serve(index, engine, [...range(0, at), 'another'])
    const whole = pin(index, other, range(0, 400))
    expect(sorted(index.sample(100_000))).toEqual(
      sorted(
        new Set([...lanesOf(range(0, 400)), ...range(1, 400).flatMap((at) => lanesOf([...range(0, at), 'another']))]),
      ),
    )
    index.release(whole)
    expect(new Set(index.sample(lanesOf(range(0, 400)).length))).toEqual(new Set(lanesOf(range(0, 400))))
  })

  it('PrefixIndex.sample leaves out flushed prefixes, even live ones, until they are booked again', () => {
    const index = new PrefixIndex(1000)
    const engine = index.addEngine()
    pin(index, engine, range(0, 8))
    index.flush(engine)
    expect([...index.sample(100)]).toEqual([])
    pin(index, engine, range(0, 4))
    expect(sorted(index.sample(100))).toEqual(sorted(lanesOf(range(0, 4))))
  })

  it('PrefixIndex.sample includes booked prompts that the engine reported in KV events', () => {
    const index = new PrefixIndex(10_000)
    const engine = index.addEngine()
    const feed = new KvEventCursor()
    const nothing = new Uint32Array(0)
    let seq = 0
    const tell = (stored: Uint32Array, removed = nothing) => {
      const one: KvEventDelta = {
        engine: 'a',
        epoch: 1,
        seq: ++seq,
        reset: seq === 1,
        complete: true,
        validMs: 60_000,
        blockTokens: 64,
        lagMs: 0,
        stored,
        removed,
      }
      expect(feed.apply(one, index, { engine, now: seq * 5_000 })).toBe('ok')
    }
    tell(chain(['of old', ...range(0, 20)]))
    serve(index, engine, range(0, 10))
    feed.requestEnded(chain(range(0, 10)), index, true)
    serve(index, engine, ['never', 'stored'])
    feed.requestEnded(chain(['never', 'stored']), index, true)
    tell(chain(range(0, 10)))
    tell(nothing)
    expect(index.entries).toBe(0)
    expect(sorted(index.sample(100))).toEqual(sorted(lanesOf(range(0, 10))))
    tell(nothing, chain(range(0, 10)).slice(14))
    expect(sorted(index.sample(100))).toEqual(sorted(lanesOf(range(0, 7))))
    index.flush(engine)
    expect([...index.sample(100)]).toEqual([])
  })

  it('PrefixIndex.sample is empty for a pool without blocks', () => {
    expect([...new PoolLedger(new LoadStats()).sample(10)]).toEqual([])
  })
})
