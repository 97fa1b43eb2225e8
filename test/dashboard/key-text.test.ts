import { expect, it } from 'vitest'
import { expiryOf, isExpired, limitTexts, newKeyBody, usageByTeam } from '../../src/dashboard/key-text.ts'
import type { KeyView } from '../../src/api/openapi/key.ts'

const key = (changes: Partial<KeyView>): KeyView => ({
  name: 'ada',
  source: 'issued',
  team: null,
  models: null,
  regions: null,
  region_order: null,
  class: 'standard',
  weight: 1,
  priority: null,
  allow_overrides: false,
  ttft_deadline_ms: null,
  limits: null,
  budgets: null,
  ...changes,
})
const usage = (requests: number) => ({
  requests,
  refused: 1,
  prompt_tokens: 10 * requests,
  cached_tokens: 0,
  output_tokens: requests,
})

it('a new key has the filled fields only: limits as numbers, models as a list', () => {
  const empty = { team: ' ', models: '', tokens_per_min: '', concurrent: '' }
  expect(newKeyBody({ name: ' ada ', ...empty })).toEqual({ name: 'ada' })
  expect(newKeyBody({ ...empty, name: 'ada', models: 'a, org/b', requests_per_min: '60', concurrent: '2' })).toEqual({
    name: 'ada',
    models: ['a', 'org/b'],
    limits: { requests_per_min: 60, concurrent: 2 },
  })
})

it('a key expires with its last secret, and never if one of them has no end', () => {
  const until = (expires: string | null) => ({ from: null, expires })
  expect(expiryOf(key({ expires: '2027-01-31' }))).toBe('2027-01-31')
  expect(expiryOf(key({ secrets: [until('2027-03-01'), until('2027-01-31')] }))).toBe('2027-03-01')
  expect(expiryOf(key({ secrets: [until('2027-03-01'), until(null)] }))).toBeNull()
  expect(isExpired('2027-01-31', Date.parse('2027-02-01'))).toBe(true)
  expect(isExpired(null, Date.parse('2027-02-01'))).toBe(false)
})

it('limits of a key are worded with their unit, and absent ones are left out', () => {
  const limits = { requests_per_min: 1200, tokens_per_min: null, tokens_per_day: null, concurrent: 3 }
  expect(limitTexts(key({ limits }))).toEqual(['1,200 requests/min', '3 at once'])
  expect(limitTexts(key({}))).toEqual([])
})

it('usage of a team is the sum over its keys, beside the costs that the gateway counts by team', () => {
  const keys = [
    key({ name: 'a', team: 'x', usage: usage(2) }),
    key({ name: 'b', team: 'x', usage: usage(3) }),
    key({ name: 'c', usage: usage(9) }),
  ]
  expect(
    usageByTeam(keys, [
      { team: 'x', engine_s: 4 },
      { team: 'w', engine_s: 1 },
    ]),
  ).toEqual([
    { team: 'w', engine_s: 1 },
    { team: 'x', engine_s: 4, requests: 5, refused: 2, prompt_tokens: 50, output_tokens: 5 },
  ])
})
