/** A chaos run of a few seconds, and its check of streams. */
import { afterEach, describe, expect, it } from 'vitest'
import chaos from '../../packages/bench/chaos.ts'
import { LogReader } from '../../packages/bench/chaos/log.ts'
import { difference, expectedTokens } from '../../packages/bench/chaos/expected.ts'

describe('a chaos run', () => {
  const before = process.exitCode
  afterEach(() => {
    process.exitCode = before
  })

  // `isolates` uses the built Worker: npm run build:worker.
  it.each([
    ['one process', 'process'],
    ['isolates that are killed', 'isolates'],
  ])(
    'a chaos run of %s breaks no invariant',
    async (_, deployment) => {
      const notes: string[] = []
      const { headline, rows } = await chaos({
        flags: { minutes: '0.1', deployment },
        args: [],
        note: (line) => notes.push(line),
      })
      const { requests, problems } = rows[0]!
      expect(requests).toBeGreaterThan(50)
      expect({ problems, ...headline }, notes.join('\n')).toMatchObject({
        problems: 0,
        lost_tokens: 0,
        duplicate_tokens: 0,
        leaked_prompts: 0,
        client_errors: 0,
        leaked_bookings: 0,
        limit_violations: 0,
      })
    },
    180_000,
  )

  it('a chaos run rejects an unknown deployment and lists those that exist', async () => {
    const run = chaos({ flags: { deployment: 'cloud' }, args: [], note: () => undefined })
    await expect(run).rejects.toThrow(
      '"cloud" is none of process, threads, replicas, cluster, regions, workers, isolates',
    )
  })
})

describe('the comparison of a stream with its expected tokens', () => {
  const expected = expectedTokens('sim', { isCompletion: true, text: 'Once upon a time', maxTokens: 12 })
  const joined = (...parts: readonly (readonly string[])[]): string => parts.flat().join('')

  it('the comparison with expected tokens finds no difference in a whole stream, nor in the beginning of one that was cut', () => {
    expect(difference(joined(expected), expected, true)).toEqual({ lost: 0, duplicate: 0 })
    expect(difference(joined(expected.slice(0, 5)), expected, false)).toEqual({ lost: 0, duplicate: 0 })
  })

  it('the comparison with expected tokens counts tokens that are missing in the middle and at the end', () => {
    const gap = joined(expected.slice(0, 4), expected.slice(6))
    expect(difference(gap, expected, true)).toEqual({ lost: 2, duplicate: 0 })
    expect(difference(joined(expected.slice(0, 9)), expected, true)).toEqual({ lost: 3, duplicate: 0 })
  })

  it('the comparison with expected tokens counts tokens that were sent twice', () => {
    const twice = joined(expected.slice(0, 6), expected.slice(4))
    expect(difference(twice, expected, true)).toEqual({ lost: 0, duplicate: 2 })
  })
})

describe('the log of a chaos run', () => {
  it('the check of a chaos log reports a request that ends twice, a key, an error and a line that is no JSON', () => {
    const log = new LogReader()
    for (const id of ['a', 'b', 'a']) log.read(JSON.stringify({ level: 'info', event: 'request', id }))
    log.read('{"level":"info","text":"chaos-key-1"}')
    log.read('{"level":"error","event":"request_failed"}')
    log.read('Segmentation fault')
    expect(log.problems).toHaveLength(4)
    expect(log.problems[0]).toBe('request a ended twice')
  })
})
