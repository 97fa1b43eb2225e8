import { expect, it } from 'vitest'
import { clock } from '../../src/dashboard/format.ts'
import { regionText, silentSince } from '../../src/dashboard/region.ts'
import type { Pool } from '../../src/dashboard/wire.ts'

const now = new Date().setHours(12, 0, 0, 0)
const gateway = {
  reachable: true,
  engines: 2,
  requests: 3,
  queued: 1,
  expected_ttft_ms: null,
  rtt_ms: 8,
  age_ms: 1500,
  blocking_match: true,
}
const region = (status: object): Pool => ({ at: now, gateway: { ...gateway, ...status } }) as unknown as Pool

it('a region that answers is described with the age of its digest', () => {
  expect(silentSince(region({}))).toBeNull()
  expect(regionText(region({})).join(' · ')).toBe(
    '2 engines there · 3 running · 1 waiting · 8 ms away · updated 2 s ago',
  )
})

it('a region that does not answer is described with the time of its last digest', () => {
  const gone = region({ reachable: false, engines: 0, age_ms: 60_000 })
  expect(silentSince(gone)).toBe(now - 60_000)
  expect(regionText(gone)[0]).toBe(`has not answered since ${clock(now - 60_000)}`)
  expect(regionText(gone).join(' ')).not.toContain('updated')
})
