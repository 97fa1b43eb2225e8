import { expect, test } from 'vitest'
import { importTrace } from '../../packages/replay/src/replay/importers.ts'

const request = (fields: Record<string, unknown>) => ({
  t: 0,
  type: 'n',
  model: 'm',
  in: 8,
  out: 3,
  hash_ids: [1, 2],
  ...fields,
})
const sessionWith = (fields: Record<string, unknown> = {}) => ({
  id: 's',
  models: ['m'],
  block_size: 4,
  hash_id_scope: 'local',
  requests: [request({})],
  ...fields,
})
const subagent = (t: number, requests: readonly unknown[]) => ({ t, type: 'subagent', agent_id: 'agent_001', requests })
const read = (...sessions: readonly unknown[]) =>
  importTrace('w', sessions.map((one) => JSON.stringify(one)).join('\n'))!

test('a Weka session is one chain with its think times, and full blocks only', () => {
  const { requests, blockTokens } = read(
    sessionWith({
      requests: [
        request({ t: 1.5, api_time: 2 }),
        request({ t: 5, type: 's', in: 14, hash_ids: [1, 2, 3, 4], api_time: 1 }),
        request({ t: 9, think_time: 0.25, in: 14, hash_ids: [1, 2, 3, 4] }),
      ],
    }),
  )
  expect(blockTokens).toBe(4)
  expect(
    requests.map(({ atMs, promptTokens, outputTokens, session, chain, thinkMs }) => [
      atMs,
      promptTokens,
      outputTokens,
      session,
      chain,
      thinkMs,
    ]),
  ).toEqual([
    [1500, 8, 3, 's', 's', 0],
    [5000, 14, 3, 's', 's', 1500],
    [9000, 14, 3, 's', 's', 250],
  ])
  expect(requests.map(({ blocks }) => blocks.length / 2)).toEqual([2, 3, 3])
  expect(requests[1]!.blocks.slice(0, 4)).toEqual(requests[0]!.blocks)
})

test('ids of Weka blocks belong to their session and to the blocks before them', () => {
  const [one, other, moved] = read(
    sessionWith(),
    sessionWith({ id: 'o' }),
    sessionWith({ id: 's', requests: [request({ t: 1, hash_ids: [9, 2] })] }),
  ).requests
  expect(one!.blocks).not.toEqual(other!.blocks)
  expect(moved!.blocks.slice(2)).not.toEqual(one!.blocks.slice(2))
})

test.each([
  ['from its start', 0.5],
  ['from the start of the session', 20.5],
])('times of a Weka subagent count %s', (_from, t) => {
  const { requests } = read(
    sessionWith({ requests: [request({}), subagent(20, [request({ t }), request({ t: t + 1 })]), request({ t: 30 })] }),
  )
  expect(requests.map(({ atMs, chain }) => [atMs, chain])).toEqual([
    [0, 's'],
    [20_500, 's:subagent-0'],
    [21_500, 's:subagent-0'],
    [30_000, 's'],
  ])
  expect(requests[1]!.blocks).toEqual(requests[0]!.blocks)
})

test('a Weka file may have one session on many lines, and a limit', () => {
  const text = JSON.stringify(sessionWith({ requests: [request({ t: 2 }), request({ t: 1 })] }), null, 2)
  expect(importTrace('w', text, { limit: 1 })!.requests.map(({ atMs }) => atMs)).toEqual([1000])
})

test.each([
  [sessionWith({ id: 7 }), 'line 2 of the trace has id 7; must be a text'],
  [sessionWith({ block_size: 0 }), 'line 2 of the trace has block_size 0; must be a number from 1'],
  [sessionWith({ block_size: 8 }), 'line 2 of the trace has block_size 8; must be 4 as in the first'],
  [sessionWith({ hash_id_scope: 'global' }), 'line 2 of the trace has hash_id_scope "global"; must be "local"'],
  [sessionWith({ requests: 3 }), 'line 2 of the trace has no list `requests`'],
  [sessionWith({ requests: [request({}), null] }), 'line 2 of the trace has requests[1] that is not an object'],
  [
    sessionWith({ requests: [request({ in: '8' })] }),
    'line 2 of the trace has requests[0].in "8"; must be a non-negative',
  ],
  [sessionWith({ requests: [request({ t: -1 })] }), 'line 2 of the trace has requests[0].t -1'],
  [sessionWith({ requests: [request({ hash_ids: ['a'] })] }), 'has no list of numbers `requests[0].hash_ids`'],
  [sessionWith({ requests: [subagent(1, [request({ out: null })])] }), 'has requests[0].requests[0].out null'],
  [
    sessionWith({ requests: [subagent(1, [subagent(1, [])])] }),
    'has a subagent in requests[0]; subagents must have none',
  ],
])('an invalid session of a Weka trace is reported: %#', (broken, message) => {
  expect(() => read(sessionWith(), broken)).toThrow(message)
})

test('a Weka file that is not JSON is reported with its line', () => {
  expect(() => importTrace('w', `${JSON.stringify(sessionWith())}\n{"id"`)).toThrow('line 2 of the trace is not JSON')
  expect(() => importTrace('w', '{\n"id": "s",\n"block_size": 4\n"requests": []\n}')).toThrow(
    'line 4 of the trace is not JSON',
  )
})
