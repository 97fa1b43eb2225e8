import { expect, it } from 'vitest'
import { RefusalLogLimit } from '../../src/api/refusal-log-limit.ts'

it('the limit of refusal lines admits ten refusals of a reason in ten seconds, and returns the number of the others once', () => {
  const limit = new RefusalLogLimit()
  const admitted = Array.from({ length: 30 }, (_, at) => limit.admits('no_engine', at)).filter(Boolean)
  expect(admitted).toHaveLength(10)
  expect(limit.admits('role_empty', 30)).toBe(true)
  expect(limit.ended(9_999)).toEqual([])
  expect(limit.ended(10_030)).toEqual([{ reason: 'no_engine', suppressed: 20 }])
  expect(limit.ended(10_030)).toEqual([])
  expect(limit.admits('no_engine', 10_030)).toBe(true)
})
