import { expect, it } from 'vitest'
import { rankingBy } from '../ranked-policy.ts'

const { order } = rankingBy('kv_aware')

// production-stack: fall back when matched < max(len(tokens) - threshold, 0).
it.each([
  ['ranks a match exactly at the threshold', 3000, 2000, 5000, true],
  ['ranks no engine for a match of one token less', 2999, 2000, 5000, false],
  ['ranks a full match with threshold 0', 5000, 0, 5000, true],
  ['ranks a match of one token with a huge threshold', 1, 1e9, 5000, true],
  ['ranks no engine without a match', 0, 1e9, 5000, false],
])('kv_aware %s', (_, matched, threshold, promptTokens, ranks) => {
  expect(order(promptTokens, { a: {}, b: { lookupTokens: matched } }, { threshold })).toEqual(ranks ? ['b', 'a'] : [])
})
