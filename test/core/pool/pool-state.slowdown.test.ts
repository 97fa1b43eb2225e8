import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { prefillSeconds } from '../../../src/core/latency/prefill-cost-model.ts'
import { profile } from '../../../src/core/latency/profiles.ts'
import { admission, engines, outcome, pool } from '../../kit/pool-fixtures.ts'

const TRUTH = profile('h100-8b')!
const IDS = ['a', 'b', 'c', 'd']
const CHANGE_MS = 60_000
const END_MS = 150_000

/**
 * Mean TTFT in seconds and the first engine's share of requests, both in the last minute.
 * @param factor its prefills take this many times longer from `CHANGE_MS` on
 */
function afterTheChange(factor: number): { readonly ttftS: number; readonly share: number } {
  const random = chance(1)
  const state = new PoolState({ random, epoch: 'one' })
  state.configure(1, pool({ engines: engines(...IDS), policy: { name: 'predicted', options: {} } }), 0)
  const freeAt = new Map(IDS.map((id) => [id, 0]))
  const due: { readonly at: number; readonly run: (now: number) => void }[] = []
  const seen: { readonly ttftS: number; readonly engine: string }[] = []
  const arrive = (now: number): void => {
    const promptTokens = Math.round(500 * 16 ** random())
    const admitted = state.admit(admission({ promptTokens, streams: true }), now)
    if (!('key' in admitted) || admitted.placement.kind !== 'whole') throw new Error('nobody was chosen')
    const {
      key,
      placement: { engine },
    } = admitted
    const slower = engine === IDS[0] && now >= CHANGE_MS ? factor : 1
    const firstTokenAt =
      Math.max(now, freeAt.get(engine)!) + 1000 * slower * prefillSeconds(TRUTH, { promptTokens, cachedTokens: 0 })
    freeAt.set(engine, firstTokenAt)
    if (now >= CHANGE_MS + 30_000) seen.push({ ttftS: (firstTokenAt - now) / 1000, engine })
    due.push({ at: firstTokenAt, run: (at) => state.firstToken(key, { ttft: at - now }, at) })
    const usage = { promptTokens, completionTokens: 20, cachedTokens: 0 }
    due.push({ at: firstTokenAt + 500, run: (at) => state.release(key, outcome({ usage }), at) })
    // Half of the capacity of the four engines.
    due.push({ at: now - Math.log(1 - random()) * 62, run: arrive })
  }
  arrive(0)
  for (let next = due[0]; next !== undefined && next.at < END_MS; next = due[0]) {
    due.shift()
    next.run(next.at)
    due.sort((one, other) => one.at - other.at)
  }
  return {
    ttftS: seen.reduce((sum, { ttftS }) => sum + ttftS, 0) / seen.length,
    share: seen.filter(({ engine }) => engine === IDS[0]).length / seen.length,
  }
}

/** Repeatable random numbers, uniform in [0, 1). */
function chance(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

describe('an engine that slows down during a run', () => {
  it('an engine that slows down during a run has no long queue half a minute later', () => {
    const before = afterTheChange(1)
    expect(before.share).toBeGreaterThan(0.2)
    const three = afterTheChange(3)
    expect(three.share).toBeLessThan(0.2)
    const ten = afterTheChange(10)
    expect(ten.share).toBeLessThan(0.05)
    for (const { ttftS } of [three, ten]) expect(ttftS).toBeLessThan(2 * before.ttftS)
  })
})

describe('responses that are not streamed', () => {
  it('unstreamed responses count as queued until their predicted time, and not after a later stream’s first token', () => {
    const state = new PoolState({ random: () => 0, epoch: 'one' })
    state.configure(1, pool({ engines: engines('a') }), 0)
    const queuedTokens = (now: number) => state.digest(now).engines[0]!.queuedPrefillTokens
    state.admit(admission({ id: 'whole', promptTokens: 10_000, streams: false }), 0)
    expect(queuedTokens(10)).toBe(10_000)
    expect(queuedTokens(5000)).toBe(0)
    state.admit(admission({ id: 'second', promptTokens: 10_000, streams: false }), 5000)
    state.admit(admission({ id: 'stream', promptTokens: 7000, streams: true }), 5000)
    expect(queuedTokens(5010)).toBe(17_000)
    state.firstToken('stream#0', {}, 5020)
    expect(queuedTokens(5020)).toBe(0)
    for (const id of ['whole', 'second', 'stream']) state.release(`${id}#0`, outcome(), 9000)
    expect([queuedTokens(9000), state.digest(9000).engines[0]!.queuedPrefillS, state.bookings]).toEqual([0, 0, 0])
  })

  it('unstreamed responses grow by decode blocks after their prefill and release them all, with or without a first token', () => {
    for (const showsAfterAll of [false, true]) {
      const state = new PoolState({ random: () => 0, epoch: 'one' })
      state.configure(1, pool({ engines: engines('a'), policy: { name: 'predicted', options: {} } }), 0)
      const blocks = (now: number): number => {
        const ranked = state.rank(admission({ promptTokens: 0 }), now)
        return 'decision' in ranked ? ranked.decision.candidates[0]!.terms['potential_blocks']! : NaN
      }
      state.admit(admission({ id: 'whole', promptTokens: 6400, streams: false }), 0)
      const prompt = blocks(0)
      const grown = blocks(2000) && blocks(32_000) - prompt
      expect(grown).toBeGreaterThan(20)
      expect(grown).toBeLessThan(64)
      if (showsAfterAll) state.firstToken('whole#0', {}, 32_000)
      expect(blocks(32_000) - prompt).toBeCloseTo(showsAfterAll ? 0 : grown)
      state.release('whole#0', outcome(), 33_000)
      expect(blocks(90_000)).toBe(0)
    }
  })

  it('unstreamed responses count as queued until they end if it is unknown whether they stream', () => {
    const state = new PoolState({ random: () => 0, epoch: 'one' })
    state.configure(1, pool({ engines: engines('a') }), 0)
    state.admit(admission({ id: 'unknown', promptTokens: 10_000 }), 0)
    expect(state.digest(60_000).engines[0]!.queuedPrefillTokens).toBe(10_000)
  })
})

describe('a late first token', () => {
  it('a late first token adds to the predicted wait of all prompts behind it until it arrives', () => {
    const state = new PoolState({ random: () => 0, epoch: 'one' })
    state.configure(1, pool({ engines: engines('a') }), 0)
    for (const id of ['stuck', 'behind']) state.admit(admission({ id, promptTokens: 10_000, streams: true }), 0)
    const queuedS = (now: number) => state.digest(now).engines[0]!.queuedPrefillS
    const expected = queuedS(0)
    expect(queuedS(1500)).toBe(0)
    expect(queuedS(20_000)).toBeGreaterThan(12)
    expect(queuedS(40_000)).toBeGreaterThan(1.9 * queuedS(20_000))
    state.firstToken('stuck#0', {}, 40_000)
    expect(queuedS(40_000)).toBeLessThan(expected)
    state.release('behind#0', outcome({ result: 'client_gone' }), 40_001)
    expect(queuedS(40_001)).toBe(0)
  })
})
