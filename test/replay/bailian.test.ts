import { expect, test } from 'vitest'
import { importTrace } from '../../packages/replay/src/replay/importers.ts'

const line = (fields: Record<string, unknown>) =>
  JSON.stringify({
    chat_id: 10,
    parent_chat_id: -1,
    timestamp: 4.5,
    input_length: 40,
    output_length: 7,
    type: 'text',
    turn: 1,
    hash_ids: [3, 4, 5],
    ...fields,
  })

const read = (...lines: readonly string[]) => importTrace('b', lines.join('\n'))!

test('a Bailian trace has seconds, blocks of 16 tokens, and one session for the turns of a conversation', () => {
  const { requests, blockTokens } = read(
    line({}),
    line({ chat_id: 11, timestamp: 5, hash_ids: [8, 4, 5] }),
    line({ chat_id: 12, parent_chat_id: 10, turn: 2, timestamp: 60.25, input_length: 64, hash_ids: [3, 4, 6, 7] }),
    line({ chat_id: 13, parent_chat_id: 12, turn: 3, timestamp: 61 }),
  )
  expect(blockTokens).toBe(16)
  expect(
    requests.map(({ atMs, promptTokens, outputTokens, session }) => [atMs, promptTokens, outputTokens, session]),
  ).toEqual([
    [0, 40, 7, 'chat-10'],
    [500, 40, 7, 'chat-11'],
    [55_750, 64, 7, 'chat-10'],
    [56_500, 40, 7, 'chat-10'],
  ])
  expect(requests[0]!.blocks.length / 2).toBe(2)
  expect(requests[2]!.blocks.slice(0, 4)).toEqual(requests[0]!.blocks)
  // The second block has other tokens before it.
  expect(requests[1]!.blocks.slice(2)).not.toEqual(requests[0]!.blocks.slice(2))
})

test('turns of a Bailian trace are sent at its times, since it does not say when answers ended', () => {
  expect(read(line({}), line({ chat_id: 12, parent_chat_id: 10 })).requests.map(({ chain }) => chain)).toEqual([
    null,
    null,
  ])
})

test('turns of a Bailian conversation that began before the file share a session, and a cycle ends', () => {
  const sessions = (...lines: readonly string[]) => read(...lines).requests.map(({ session }) => session)
  expect(sessions(line({ parent_chat_id: 2 }), line({ chat_id: 11, parent_chat_id: 2 }))).toEqual(['chat-2', 'chat-2'])
  expect(sessions(line({ parent_chat_id: 11 }), line({ chat_id: 11, parent_chat_id: 10 }))).toHaveLength(2)
})

test.each([
  ['{', 'line 2 of the trace is not JSON'],
  [line({ timestamp: 'now' }), 'line 2 of the trace has timestamp "now"; must be a non-negative number'],
  [line({ chat_id: undefined }), 'line 2 of the trace has chat_id undefined'],
  [line({ parent_chat_id: -2 }), 'line 2 of the trace has parent_chat_id -2; must be a number from -1'],
  [line({ output_length: -1 }), 'line 2 of the trace has output_length -1'],
  [line({ hash_ids: 'none' }), 'line 2 of the trace has no list of numbers `hash_ids`'],
])('an invalid line of a Bailian trace is reported: %s', (broken, message) => {
  expect(() => read(line({}), broken)).toThrow(message)
})
