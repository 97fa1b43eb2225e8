import { expect, it } from 'vitest'
import { hasFailed, NO_TARGET_COUNTS, withRequest } from '../../../src/core/traffic/target-counts.ts'

const complete = {
  engine: 'e',
  status: 200,
  result: 'complete',
  stages: { ttft: 100 },
  durationMs: 1_100,
  stream: true,
} as const

it('a complete stream counts its first token, its tokens and their time', () => {
  expect(withRequest(NO_TARGET_COUNTS, complete, 50)).toEqual({
    requests: 1,
    refused: 0,
    failed: 0,
    ttftMs: 100,
    firstTokens: 1,
    streams: 1,
    outputTokens: 50,
    decodeMs: 1_000,
  })
})

it.each([
  ['an engine that breaks off', { result: 'engine_failed' }, { failed: 1, refused: 0, streams: 0 }],
  ['no engine', { engine: null, status: 503, result: 'refused' }, { failed: 1, refused: 0 }],
  ['a limit', { engine: null, status: 429, result: 'refused' }, { failed: 0, refused: 1 }],
  ['a client that leaves', { result: 'client_gone', status: 499 }, { failed: 0, refused: 0, streams: 0 }],
  ['a client’s mistake', { result: 'complete', status: 400, stages: {} }, { failed: 0, refused: 0, firstTokens: 0 }],
] as const)('%s is counted as what it is', (_, changes, counts) => {
  expect(withRequest(NO_TARGET_COUNTS, { ...complete, ...changes }, 5)).toMatchObject(counts)
  expect(hasFailed({ ...complete, ...changes })).toBe(counts.failed === 1)
})
