import { expect, test } from 'vitest'
import { keysOf, readTrace } from '../../packages/replay/src/replay/trace.ts'

const row = (fields: Record<string, unknown>) => JSON.stringify({ session_id: 'a', output_length: 100, ...fields })
const first = row({ timestamp: 1000, input_length: 1000, hash_ids: [1, 2], group_id: 0 })
const read = (...lines: readonly string[]) => readTrace('aiperf', lines.join('\n')).requests

test('a later row of an AIPerf session has the previous prompt and answer before its own tokens', () => {
  const [one, two, three] = read(
    first,
    row({ delay: 20, input_length: 600, hash_ids: [7, 8] }),
    row({ delay: 30, input_length: 400, hash_ids: [9], output_length: 1 }),
  )
  expect([one, two, three].map((request) => request!.promptTokens)).toEqual([1000, 1700, 2200])
  expect([one, two, three].map((request) => request!.atMs)).toEqual([0, 20, 50])
  expect(one!.blocks).toEqual(keysOf([1]))
  expect(two!.blocks.length / 2).toBe(3)
  expect(two!.blocks.slice(0, 2)).toEqual(one!.blocks)
  expect(three!.blocks.slice(0, 6)).toEqual(two!.blocks)
})

test('AIPerf sessions share the blocks of their first prompts and no later ones', () => {
  const sessions = ['a', 'b'].flatMap((session_id) => [
    row({ session_id, timestamp: 0, input_length: 1024, hash_ids: [1, 2] }),
    row({ session_id, delay: 5, input_length: 924, hash_ids: [7, 8] }),
  ])
  const [one, other] = read(...sessions).filter(({ promptTokens }) => promptTokens > 1024)
  expect(one!.blocks.slice(0, 4)).toEqual(other!.blocks.slice(0, 4))
  expect(one!.blocks.slice(4)).toHaveLength(4)
  expect(one!.blocks.slice(4, 6)).not.toEqual(other!.blocks.slice(4, 6))
})

test.each([
  ['message_array_with_responses', 600],
  ['deltas_with_responses', 1600],
  ['deltas_without_responses', 1700],
])('AIPerf context_mode %s sets what a row adds to its session', (context_mode, promptTokens) => {
  const [, two] = read(first, row({ delay: 20, input_length: 600, hash_ids: [1], context_mode }))
  expect(two!.promptTokens).toBe(promptTokens)
})

test('a row with a timestamp has its whole prompt, as in recordings', () => {
  const [, two] = read(first, row({ timestamp: 2000, input_length: 1600, hash_ids: [1, 2, 3, 4] }))
  expect([two!.promptTokens, two!.blocks]).toEqual([1600, keysOf([1, 2, 3])])
})

test('AIPerf rows without times and ids start at 0 and follow each other', () => {
  const requests = read(
    row({ input_length: 600 }),
    row({ input_length: 40 }),
    row({ session_id: 'b', input_length: 5 }),
  )
  expect(requests.map(({ atMs, promptTokens }) => [atMs, promptTokens])).toEqual([
    [0, 600],
    [0, 740],
    [0, 5],
  ])
})

test.each([
  [row({ delay: 'x', input_length: 1 }), 'line 2 of the trace has delay "x"; must be a non-negative number'],
  [row({ delay: 1, text_input: 'hello' }), 'line 2 of the trace has input_length undefined'],
  [
    row({ delay: 1, input_length: 1, context_mode: 'other' }),
    'line 2 of the trace has context_mode "other"; must be message_array',
  ],
  [row({ delay: 1, input_length: 1, hash_ids: 4 }), 'line 2 of the trace has no list of numbers `hash_ids`'],
])('an invalid row of an AIPerf session is reported: %s', (broken, message) => {
  expect(() => read(first, broken)).toThrow(message)
})
