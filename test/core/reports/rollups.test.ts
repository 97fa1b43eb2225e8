import fc from 'fast-check'
import { expect, it } from 'vitest'
import { groupName, type RollupGroup, Rollups } from '../../../src/core/reports/rollups.ts'
import { record } from '../../contracts/ttft.ts'

const requestsIn = ({ counts }: RollupGroup): number =>
  Object.entries(counts).reduce((sum, [name, count]) => sum + (name.startsWith('requests:') ? count : 0), 0)
const total = (groups: readonly RollupGroup[]): number => groups.reduce((sum, group) => sum + requestsIn(group), 0)

/** Rollups with more names than their limit. */
function overfull(endedAt = 0): Rollups {
  const rollups = new Rollups()
  for (let at = 0; at < 6_000; at++) rollups.record(record({ engine: `pod-${at}`, receivedAt: endedAt, durationMs: 0 }))
  return rollups
}

it('the rollups counts every request in a limited number of groups, however many engines come and go', () => {
  const groups = overfull().groups()
  expect(groups.length).toBeLessThanOrEqual(5_001)
  expect(total(groups)).toBe(6_000)
})

it('the rollups restores every count from storage that sorts by name, also when it is full', () => {
  const sorted = new Map(
    overfull()
      .takeChanged()
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )
  const restored = new Rollups()
  for (const group of sorted.values()) restored.merge(group)
  expect(new Map(restored.takeChanged())).toEqual(sorted)
})

it('the rollups accepts new names after old ones were removed, and leaves `other` unchanged', () => {
  const rollups = overfull(1_000)
  const other = () => rollups.groups().find(({ engine }) => engine === 'other')
  const before = other()
  expect(
    rollups.forget(
      rollups
        .groups()
        .filter(({ engine }) => engine !== 'other')
        .map(groupName),
      1_001,
    ),
  ).toHaveLength(5_000)
  rollups.record(record({ engine: 'new-pod', receivedAt: 2_000 }))
  expect(
    rollups
      .groups()
      .map(({ engine }) => engine)
      .sort(),
  ).toEqual(['new-pod', 'other'])
  expect(other()).toEqual(before)
})

it('the rollups removes named idle groups only, and never lowers the counts of the others', () => {
  const engine = fc.constantFrom('a', 'b', 'c', 'd')
  const step = fc.oneof(
    fc.record({ do: fc.constant('record' as const), engine, at: fc.nat(100) }),
    fc.record({ do: fc.constant('forget' as const), engines: fc.subarray(['a', 'b', 'c', 'd']), before: fc.nat(110) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const rollups = new Rollups()
      const model = new Map<string, { count: number; at: number }>()
      for (const one of steps) {
        if (one.do === 'record') {
          rollups.record(record({ engine: one.engine, receivedAt: one.at, durationMs: 0 }))
          const { count = 0, at = 0 } = model.get(one.engine) ?? {}
          model.set(one.engine, { count: count + 1, at: Math.max(at, one.at) })
        } else {
          rollups.forget(
            one.engines.map((id) => groupName({ model: 'qwen', cluster: 'paris', engine: id })),
            one.before,
          )
          for (const id of one.engines) if ((model.get(id)?.at ?? Infinity) < one.before) model.delete(id)
        }
        expect(
          Object.fromEntries(
            rollups.groups().map((group) => [group.engine, { count: requestsIn(group), at: group.at }]),
          ),
        ).toEqual(Object.fromEntries(model))
        for (const [name] of rollups.takeChanged()) expect(model.has(JSON.parse(name)[2] as string)).toBe(true)
      }
    }),
  )
})

it('the rollups measures the time per token of one sequence, for any number of parallel sequences', () => {
  const tokenMs = (completionTokens: number, sequences?: number): number => {
    const rollups = new Rollups()
    rollups.record(
      record({
        durationMs: 1_000,
        stages: { ttft: 100 },
        usage: { promptTokens: 1, completionTokens, cachedTokens: null },
        ...(sequences === undefined ? {} : { sequences }),
      }),
    )
    return rollups.groups()[0]!.sketches['output_token']!.sum
  }
  expect(tokenMs(4 * 91, 4)).toBeCloseTo(tokenMs(91), 6)
  expect(tokenMs(91)).toBeCloseTo(10, 6)
})
