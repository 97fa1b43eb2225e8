/** Admission control in front of an engine that becomes slower, or whose times vary. */
import { expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engine, outcome, pool } from '../../kit/pool-fixtures.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'

const TTFT_MS = 2_000
/** Prefill speed of the engine at first, tokens/ms. */
const PACE = 10
const MEAN_TOKENS = 4_000

interface RequestCounts {
  readonly firstTokenAt: number
  readonly ttftMs: number
}

/**
 * An engine that computes one prompt after the other, with random arrivals at 1.5 times its load. `spread`: largest
 * natural logarithm of the factor by which a prefill takes longer or shorter.
 */
function run(seconds: number, paceAt: (now: number) => number, spread = 0): RequestCounts[] {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const slo = { ttftMs: TTFT_MS, ttftMsPer1kTokens: null, itlMs: null }
  state.configure(1, pool({ engines: [engine('a')], slo, policy: { name: 'predicted', options: {} } }), 0)
  const random = chance(3)
  const served: RequestCounts[] = []
  const events: { readonly at: number; readonly happen: (now: number) => void }[] = []
  const soon = (at: number, happen: (now: number) => void): void => {
    const place = events.findIndex((event) => event.at > at)
    events.splice(place === -1 ? events.length : place, 0, { at, happen })
  }
  let freeAt = 0
  const arrive = (now: number): void => {
    const promptTokens = Math.floor(MEAN_TOKENS * (0.25 + 1.5 * random()))
    if (now < seconds * 1_000) soon(now - Math.log(1 - random()) * (MEAN_TOKENS / paceAt(now) / 1.5), arrive)
    const answer = state.admit(admission({ promptTokens, streams: true, expectedOutputTokens: 20 }), now)
    if ('refusal' in answer) return
    const factor = spread === 0 ? 1 : Math.exp(spread * (random() + random() - 1))
    const firstTokenAt = Math.max(now, freeAt) + (factor * promptTokens) / paceAt(now)
    freeAt = firstTokenAt
    const stages = { ttft: firstTokenAt - now, first_byte: firstTokenAt - now }
    const usage = { promptTokens, completionTokens: 20, cachedTokens: 0 }
    soon(firstTokenAt, (at) => {
      served.push({ firstTokenAt, ttftMs: firstTokenAt - now })
      state.firstToken(answer.key, stages, at)
      soon(at + 100, (end) => void state.release(answer.key, outcome({ usage, stages }), end))
    })
  }
  soon(0, arrive)
  for (let event = events.shift(); event !== undefined; event = events.shift()) event.happen(event.at)
  return served
}

const late = (served: readonly RequestCounts[]): number =>
  served.filter(({ ttftMs }) => ttftMs > TTFT_MS).length / served.length

it('after 20 responses of an engine that became twice as slow, fewer than 5 % of the admitted requests are late', () => {
  const changeAt = 300_000
  const seconds = 900
  const served = run(seconds, (now) => (now < changeAt ? PACE : PACE / 2))
  const before = served.filter(({ firstTokenAt }) => firstTokenAt > 60_000 && firstTokenAt < changeAt)
  const after = served.filter(({ firstTokenAt }) => firstTokenAt >= changeAt)
  expect(late(before)).toBeLessThan(0.02)
  expect(late(after.slice(0, 20))).toBeGreaterThan(0.2)
  expect(late(after.slice(20))).toBeLessThan(0.05)
  // The engine stays busy.
  expect(after.length).toBeGreaterThan((0.9 * (seconds * 1_000 - changeAt) * (PACE / 2)) / MEAN_TOKENS)
})

it('of an engine whose prefills take a fifth to five times the mean, most admitted requests are in time', () => {
  const served = run(300, () => PACE, 1.6).filter(({ firstTokenAt }) => firstTokenAt > 60_000)
  expect(served.length).toBeGreaterThan(300)
  expect(late(served)).toBeLessThan(0.3)
})
