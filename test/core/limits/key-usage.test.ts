import { expect, it } from 'vitest'
import { KeyUsage, sumUsage } from '../../../src/core/limits/key-usage.ts'

const usage = { promptTokens: 10, completionTokens: 5, cachedTokens: null }

it('the usage of keys counts requests, refusals and tokens by key', () => {
  const counts = new KeyUsage()
  counts.add('a', { engine: 'e', usage })
  counts.add('a', { engine: null, usage: null })
  counts.add('b', { engine: 'e', usage: { ...usage, cachedTokens: 8 } })
  const a = { requests: 2, refused: 1, promptTokens: 10, cachedTokens: 0, outputTokens: 5 }
  const b = { requests: 1, refused: 0, promptTokens: 10, cachedTokens: 8, outputTokens: 5 }
  expect(counts.list()).toEqual({ a, b })
  expect(sumUsage({ a }, counts.list())['a']).toEqual({
    ...a,
    requests: 4,
    refused: 2,
    promptTokens: 20,
    outputTokens: 10,
  })
})

it('the usage of keys keeps a bounded number of names', () => {
  const counts = new KeyUsage()
  for (let at = 0; at < 2_000; at++) counts.add(`k${at}`, { engine: 'e', usage })
  expect(Object.keys(counts.list())).toHaveLength(1_001)
  expect(counts.list()['other']).toMatchObject({ requests: 1_000 })
})
