import { expect, it } from 'vitest'
import { asRanked, candidates, policyNamed, rankingBy, routeRequest } from '../ranked-policy.ts'

const engines = (busy: string | null, requests: number) =>
  candidates(Object.fromEntries(['a', 'b', 'c'].map((id) => [id, { requests: id === busy ? requests : 0 }])))
const chosen = (session: string, busy: string | null = null, requests = 0): string =>
  asRanked(policyNamed('session'), routeRequest(1, { session }), engines(busy, requests))[0]!.engine

it('session distributes sessions over all engines', () => {
  const sessions = Array.from({ length: 40 }, (_, at) => `session-${at}`)
  expect(new Set(sessions.map((session) => chosen(session)))).toEqual(new Set(['a', 'b', 'c']))
})

it('session keeps a session on its engine up to 1.25 times the fair share, and not beyond', () => {
  const first = chosen('one')
  // The share of 1 request and the new one is 1.25 * 2 / 3, rounded up to 1.
  expect(chosen('one', first, 0)).toBe(first)
  expect(chosen('one', first, 1)).not.toBe(first)
})

it('session ranks a request without a session by load', () => {
  expect(rankingBy('session').order(1, { busy: { requests: 2 }, idle: {}, some: { requests: 1 } })).toEqual([
    'idle',
    'some',
    'busy',
  ])
})
