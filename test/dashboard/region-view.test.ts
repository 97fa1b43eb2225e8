import { expect, it } from 'vitest'
import { nextRegionView, type RegionEngine, type RegionView, unread } from '../../src/dashboard/region-view.ts'

const of = { cluster: 'paris', model: 'sim' }
const engine = { id: 'e0', cluster: 'here', role: 'any', available: true } as const satisfies RegionEngine

/** The view after an answer with this field of the pool, beside a pool of another model. */
const after = (field: object, last: RegionView = unread, at = 5): RegionView =>
  nextRegionView(last, {
    pools: [
      { cluster: 'paris', model: 'other', region_engines: [] },
      { ...of, ...field },
    ],
    of,
    at,
  })

it('a region is listed with the engines of the pool and the time of the answer', () => {
  expect(after({ region_engines: [engine] })).toEqual({ state: 'listed', engines: [engine], listedAt: 5 })
})

it('a region without an admin key is closed', () => {
  expect(after({})).toEqual({ state: 'closed', engines: null, listedAt: 0 })
})

it('a region that falls silent, and a gateway that does not answer, keep the last list with its time', () => {
  const listed = after({ region_engines: [engine] })
  expect(after({ region_engines: null }, listed, 9)).toEqual({ state: 'silent', engines: [engine], listedAt: 5 })
  expect(nextRegionView(listed, { pools: null, of, at: 9 })).toEqual({ ...listed, state: 'failed' })
  expect(after({ region_engines: null })).toEqual({ state: 'silent', engines: null, listedAt: 0 })
})
