import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type WeightedTarget, WeightedTargets } from '../../../src/core/traffic/weighted-targets.ts'

const target = (model: string, weight: number, changes: Partial<WeightedTarget> = {}): WeightedTarget => ({
  model,
  weight,
  keys: [],
  stop: null,
  ...changes,
})
const sessions = Array.from({ length: 4_000 }, (_, at) => `conversation ${at}`)
const never = (): number => {
  throw new Error('a session is placed without chance')
}
const chosen = (targets: WeightedTargets) =>
  sessions.map((session) => targets.choose({ key: 'ada', session }, never).model)
const shareOf = (model: string, models: readonly string[]): number =>
  models.filter((one) => one === model).length / models.length

/** mulberry32 */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

it('sessions and single requests are shared by weight', () => {
  const targets = new WeightedTargets([target('a', 9), target('b', 1)])
  expect(shareOf('b', chosen(targets))).toBeCloseTo(0.1, 1)
  const random = randomOf(7)
  const single = sessions.map(() => targets.choose({ key: 'ada', session: null }, random).model)
  expect(shareOf('b', single)).toBeCloseTo(0.1, 1)
})

it('a session keeps its target while the weights stay', () => {
  const weights = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(weights, fc.string(), (list, session) => {
      const build = () => new WeightedTargets(list.map((weight, at) => target(`m${at}`, weight)))
      const [one, other] = [build(), build()].map((targets) => targets.choose({ key: 'k', session }, never).model)
      expect(one).toBe(other)
    }),
  )
})

it('a larger weight moves sessions to its target only', () => {
  const before = chosen(new WeightedTargets([target('a', 70), target('b', 20), target('c', 10)]))
  const after = chosen(new WeightedTargets([target('a', 70), target('b', 20), target('c', 40)]))
  const moved = before.flatMap((model, at) => (model === after[at] ? [] : [after[at]]))
  expect(moved.length).toBeGreaterThan(0)
  expect(new Set(moved)).toEqual(new Set(['c']))
})

it('a target without weight serves its keys alone', () => {
  const targets = new WeightedTargets([target('a', 1), target('b', 0, { keys: ['qa'] })])
  expect(shareOf('b', chosen(targets))).toBe(0)
  expect(targets.choose({ key: 'qa', session: 'conversation' }, never).model).toBe('b')
})

const stop = { failedShare: 0.5, minRequests: 4 }

it('a target whose requests fail is stopped once, and its sessions go to the others', () => {
  const bad = target('b', 1, { stop })
  const targets = new WeightedTargets([target('a', 1), bad])
  const before = chosen(targets)
  expect([1, 2, 3].map((now) => targets.ended(bad, true, now))).toEqual([false, false, false])
  expect(targets.ended(bad, true, 4)).toBe(true)
  expect(targets.ended(bad, true, 5)).toBe(false)
  expect(targets.stoppedSince(bad)).toBe(4)
  const after = chosen(targets)
  expect(shareOf('a', after)).toBe(1)
  expect(shareOf('b', before)).toBeGreaterThan(0.4)
})

it('failures of more than five minutes ago stop nothing', () => {
  const bad = target('b', 1, { stop })
  const targets = new WeightedTargets([target('a', 1), bad])
  for (const now of [1, 2, 3]) targets.ended(bad, true, now)
  expect(targets.ended(bad, true, 400_000)).toBe(false)
  expect(targets.stoppedSince(bad)).toBeNull()
})

it('a stopped target serves while there is no other', () => {
  const bad = target('b', 1, { stop })
  const targets = new WeightedTargets([bad])
  for (const now of [1, 2, 3, 4]) targets.ended(bad, true, now)
  expect(targets.stoppedSince(bad)).toBe(4)
  expect(targets.choose({ key: 'k', session: 's' }, never).model).toBe('b')
})
