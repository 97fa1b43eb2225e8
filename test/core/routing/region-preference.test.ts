import { expect, it } from 'vitest'
import { byPreference, type RegionPreference } from '../../../src/core/routing/region-preference.ts'

interface Cluster {
  readonly id: string
  readonly region: string | null
  readonly isUnavailable: boolean
  readonly ttftMs: number | null
}

const cluster = (id: string, region: string | null, more: Partial<Cluster> = {}): Cluster => ({
  id,
  region,
  isUnavailable: false,
  ttftMs: null,
  ...more,
})

const order = (preference: Partial<RegionPreference>, clusters: readonly Cluster[]): string =>
  byPreference({ order: ['eu', 'us'], whenFull: 'next', spillTtftMs: null, ...preference }, clusters, (one) => one)
    .map(({ id }) => id)
    .join(' ')

it('an order of preference keeps the order of clusters in one region, and puts other regions behind', () => {
  const ranked = [
    cluster('none', null),
    cluster('us', 'us'),
    cluster('eu-2', 'eu'),
    cluster('asia', 'asia'),
    cluster('eu-1', 'eu'),
  ]
  expect(order({}, ranked)).toBe('eu-2 eu-1 us none asia')
})

it('an unavailable cluster is behind all others, by preference among its kind', () => {
  const gone = { isUnavailable: true }
  expect(order({}, [cluster('us', 'us', gone), cluster('eu', 'eu', gone), cluster('asia', 'asia')])).toBe('asia eu us')
})

it('a cluster whose predicted time is above the limit is behind those below it, and an unknown time is below', () => {
  const ranked = [cluster('us', 'us'), cluster('eu', 'eu', { ttftMs: 2_001 })]
  expect(order({ spillTtftMs: 2_000 }, ranked)).toBe('us eu')
  expect(order({ spillTtftMs: 2_001 }, ranked)).toBe('eu us')
  expect(order({}, ranked)).toBe('eu us')
})
