import { expect, it } from 'vitest'
import { RunningIds } from '../../src/api/running-ids.ts'

const OWN = '00000000-0000-4000-8000-0000000000a1'
const OTHER = '00000000-0000-4000-8000-0000000000b2'

it('S26: a second request with the id of a running one gets another id, until the first has ended', () => {
  const ids = new RunningIds()
  expect(ids.take('job-1', OWN)).toBe('job-1')
  const second = ids.take('job-1', OTHER)
  expect(second).toBe('job-1-0000000000b2')
  ids.release(second)
  expect(ids.take('job-1', OTHER)).not.toBe('job-1')
  ids.release('job-1')
  expect(ids.take('job-1', OTHER)).toBe('job-1')
})

it('an id with a suffix is no longer than an id may be', () => {
  const ids = new RunningIds()
  const long = 'x'.repeat(128)
  ids.take(long, OWN)
  expect(ids.take(long, OTHER)).toHaveLength(128)
})

it('the gateway’s own ids are not kept', () => {
  const ids = new RunningIds()
  expect([ids.take(OWN, OWN), ids.take(OWN, OWN)]).toEqual([OWN, OWN])
})
