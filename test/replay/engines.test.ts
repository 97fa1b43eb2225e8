import fc from 'fast-check'
import { expect, test } from 'vitest'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import { EventQueue } from '../../packages/replay/src/replay/event-queue.ts'
import { inBlocksOf } from '../../packages/replay/src/replay/engine-profile.ts'
import { SerialEngine } from '../../packages/replay/src/replay/serial-engine.ts'
import type { JobListener } from '../../packages/replay/src/replay/replay-engine.ts'
import { keysOf } from '../../packages/replay/src/replay/trace.ts'
import { Job } from '../../packages/replay/src/replay/job.ts'
import { VllmEngine } from '../../packages/replay/src/replay/vllm-engine.ts'

const quiet: JobListener = { firstToken() {}, progress() {}, ended() {} }

function job(index: number, ids: readonly number[], { tail = 0, outputTokens = 1, blockTokens = 512 } = {}): Job {
  return new Job(index, {
    atMs: 0,
    promptTokens: ids.length * blockTokens + tail,
    outputTokens,
    blocks: keysOf(ids),
    session: null,
    chain: null,
    thinkMs: 0,
  })
}

test('events run in order of time, and at equal times in the order of insertion', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 20 })), (times) => {
      const events = new EventQueue()
      const seen: { at: number; order: number }[] = []
      times.forEach((at, order) => events.add(at, () => seen.push({ at, order })))
      events.run(Infinity)
      const expected = times
        .map((at, order) => ({ at, order }))
        .sort((one, other) => one.at - other.at || one.order - other.order)
      expect(seen).toEqual(expected)
      expect(events.size).toBe(0)
    }),
  )
})

test('a serial engine computes one prompt after the other and charges uncached blocks', () => {
  const firsts: number[] = []
  const engine = new SerialEngine(
    { blockTokens: 512, cacheBlocks: 100, prefillBlockMs: 64, decodeTokenMs: 20 },
    { ...quiet, firstToken: (_, at) => firsts.push(at) },
  )
  engine.submit(job(0, [1, 2, 3]), 0)
  engine.submit(job(1, [1, 2, 4]), 10)
  expect(engine.exactTtftMs(job(2, [1, 2, 3, 5]), 20)).toBe(3 * 64 + 64 - 20 + 64)
  expect(engine.exactColdTtftMs(job(2, [1, 2, 3, 5]), 20)).toBe(3 * 64 + 64 - 20 + 4 * 64)
  engine.advance(1e6)
  expect(firsts).toEqual([192, 256])
  expect(engine.computedTokens).toBe(4 * 512)
})

test('a serial engine evicts the least recently used blocks, the tails of prompts first', () => {
  const engine = new SerialEngine({ blockTokens: 512, cacheBlocks: 4, prefillBlockMs: 1, decodeTokenMs: 1 }, quiet)
  engine.submit(job(0, [1, 2, 3]), 0)
  engine.submit(job(1, [7, 8]), 0)
  expect(engine.exactCachedTokens(job(2, [1, 2, 3]))).toBe(2 * 512)
  expect(engine.exactCachedTokens(job(3, [7, 8]))).toBe(2 * 512)
})

const profile = inBlocksOf(512, profileNamed('agentic'))

test('the exact prediction of an idle engine comes true, cold and warm', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 0, max: 512 }), (count, tail) => {
      let firstAt = -1
      const engine = new VllmEngine(profile, { ...quiet, firstToken: (_, at) => (firstAt = at) })
      const ids = Array.from({ length: count }, (_, at) => at + 1)
      for (const [index, start] of [0, 1e6].entries()) {
        const one = job(index, ids, { tail: tail + 1 })
        const predicted = engine.exactTtftMs(one, start)
        engine.submit(one, start)
        engine.advance(start + 1e5)
        expect(firstAt - start).toBeCloseTo(predicted, 3)
      }
    }),
    // One token is left for its own step, at the cost of a decode step: for a cold and for a cached prompt.
    {
      numRuns: 25,
      examples: [
        [16, 0],
        [15, 512],
        [3, 0],
      ],
    },
  )
})

test('the exact prediction of a queue of prompts is right within one step', () => {
  let firstAt = -1
  const last = job(9, [900, 901, 902, 903], { tail: 5 })
  const engine = new VllmEngine(profile, {
    ...quiet,
    firstToken: (done, at) => (firstAt = done === last ? at : firstAt),
  })
  for (let at = 0; at < 5; at += 1)
    engine.submit(
      job(
        at,
        Array.from({ length: 20 }, (_, block) => 1 + at * 100 + block),
      ),
      0,
    )
  engine.advance(1)
  const predicted = engine.exactTtftMs(last, 1)
  engine.submit(last, 1)
  engine.advance(1e6)
  const stepMs = profile.costModel.stepMs + profile.costModel.prefillStepMs
  expect(Math.abs(firstAt - 1 - predicted)).toBeLessThan(2 * stepMs)
})

test('blocks of a queued prompt count as cached for the prompt behind it', () => {
  const engine = new VllmEngine(profile, quiet)
  engine.submit(job(0, [1, 2, 3, 4]), 0)
  expect(engine.exactCachedTokens(job(1, [1, 2, 3, 9], { tail: 1 }))).toBe(3 * 512)
})
