import { expect, it } from 'vitest'
import { clock } from '../../src/dashboard/format.ts'
import { drainText, regionViewText } from '../../src/dashboard/region-text.ts'
import type { RegionEngine, RegionView } from '../../src/dashboard/region-view.ts'
import type { Pool } from '../../src/dashboard/wire.ts'

const now = new Date().setHours(12, 0, 0, 0)
const engines = [
  { id: 'e0', cluster: 'here', role: 'any', available: true },
  { id: 'e1', cluster: 'here', role: 'any', available: false },
] as const satisfies readonly RegionEngine[]

const textOf = (view: Partial<RegionView>, gateway: object | null = { reachable: true }): string =>
  regionViewText({ state: 'reading', engines: null, listedAt: 0, ...view }, {
    cluster: 'paris',
    model: 'sim',
    at: now,
    gateway,
  } as Pool)

it('the engines of a region are counted once they are listed', () => {
  expect(textOf({ state: 'listed', engines })).toBe('1 of 2 engines of paris up')
  expect(textOf({ state: 'listed', engines: [] })).toBe('paris has no engine of sim.')
  expect(textOf({})).toBe('Reading the engines of paris …')
})

it('the engines of a region without an admin key name the setting', () => {
  expect(textOf({ state: 'closed' })).toContain('set gateway.admin_key of the cluster')
})

it('a silent region names its last answer, and the time of the list that is shown', () => {
  const gone = { reachable: false, age_ms: 60_000 }
  expect(textOf({ state: 'silent' }, gone)).toBe(`The gateway of paris has not answered since ${clock(now - 60_000)}.`)
  expect(textOf({ state: 'silent', engines, listedAt: now - 61_000 }, gone)).toContain(
    `The list below is of ${clock(now - 61_000)}.`,
  )
  expect(textOf({ state: 'silent' }, null)).toBe('The gateway of paris has not answered yet.')
})

it('a region that answers but does not list its engines names what to look for', () => {
  expect(textOf({ state: 'silent' })).toMatch(/within 2 s, or rejects gateway\.admin_key.*region_admin_failed/)
})

it('the result of a drain says what happens to the requests of the engine', () => {
  expect(drainText({ id: 'e0', requests: 3 }, true)).toBe('e0 gets no new requests; 3 running requests will complete.')
  expect(drainText({ id: 'e0', requests: 0 }, true)).toBe('e0 gets no new requests; none is running there.')
  expect(drainText({ id: 'e0', requests: 3 }, false)).toBe('e0 gets requests again.')
})
