import fc from 'fast-check'
import { expect, test } from 'vitest'
import { keysOf, readTrace, spread, type Trace } from '../../packages/replay/src/replay/trace.ts'
import { multiRound, sharedPrefixes } from '../../packages/replay/src/replay/workloads.ts'

const line = (fields: Record<string, unknown>) =>
  JSON.stringify({ timestamp: 0, input_length: 1300, output_length: 4, hash_ids: [1, 2, 3], ...fields })

test('a trace starts at zero, is in order of time, and has keys for full blocks only', () => {
  const trace = readTrace(
    't',
    [line({ timestamp: 9000 }), line({ timestamp: 6000, session_id: 's', think_ms: 40 })].join('\n'),
  )
  expect(trace.requests.map(({ atMs }) => atMs)).toEqual([0, 3000])
  expect(trace.requests[0]).toMatchObject({
    promptTokens: 1300,
    outputTokens: 4,
    session: 's',
    chain: 's',
    thinkMs: 40,
  })
  expect(trace.requests[0]!.blocks).toEqual(keysOf([1, 2]))
})

test.each([
  ['{', 'line 2 of the trace is not JSON'],
  [line({ input_length: 'long' }), 'line 2 of the trace has input_length "long"'],
  [line({ timestamp: -1 }), 'line 2 of the trace has timestamp -1'],
  [line({ hash_ids: undefined }), 'line 2 of the trace has no list of numbers `hash_ids`'],
  ['null', 'line 2 of the trace is not an object'],
  [line({ timestamp: undefined }), 'line 2 of the trace has timestamp undefined'],
  [line({ timestamp: undefined, delay: -5 }), 'line 2 of the trace has delay -5'],
  [line({ timestamp: undefined, delay: 5, session_id: 'x' }), 'line 2 of the trace has a delay and no timestamp'],
])('an invalid line is reported: %s', (broken, message) => {
  expect(() => readTrace('t', `${line({})}\n${broken}`)).toThrow(message)
})

test('ids are equal if and only if their keys are, beyond 32 bits too', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 45 }), fc.integer({ min: 0, max: 2 ** 45 }), (one, other) => {
      expect(String(keysOf([one])) === String(keysOf([other]))).toBe(one === other)
    }),
  )
})

test('AIPerf delays are times after the request before in the session, and thinking times', () => {
  const text = [
    line({ session_id: 'a', timestamp: 1_000 }),
    line({ session_id: 'b', timestamp: 1_500 }),
    line({ session_id: 'a', timestamp: undefined, delay: 700 }),
    line({ session_id: 'a', timestamp: undefined, delay: 50 }),
  ].join('\n')
  const { requests } = readTrace('aiperf', text)
  expect(requests.map(({ atMs, session, thinkMs }) => [atMs, session, thinkMs])).toEqual([
    [0, 'a', 0],
    [500, 'b', 0],
    [700, 'a', 700],
    [750, 'a', 50],
  ])
})

function traceAt(times: readonly number[], chain: (at: number) => string | null = () => null): Trace {
  return {
    name: 't',
    blockTokens: 512,
    requests: times.map((atMs, at) => ({
      atMs,
      promptTokens: 1,
      outputTokens: 1,
      blocks: keysOf([]),
      session: null,
      chain: chain(at),
      thinkMs: 0,
    })),
  }
}

test('requests in one tick of a coarse clock are spread over it, equally for equal seeds', () => {
  const coarse = traceAt([0, 0, 0, 3000, 3000, 6000, 6000, 6000])
  const once = spread(coarse, 5).requests.map(({ atMs }) => atMs)
  expect(spread(coarse, 5).requests.map(({ atMs }) => atMs)).toEqual(once)
  expect(spread(coarse, 6).requests.map(({ atMs }) => atMs)).not.toEqual(once)
  expect(once.map((at) => Math.floor(at / 3000))).toEqual([0, 0, 0, 1, 1, 2, 2, 2])
  expect(new Set(once).size).toBe(8)
})

test('with a fine clock the turns of a session keep their distance', () => {
  const fine = traceAt([0, 10, 25, 1000], (at) => (at < 3 ? 'a' : 'b'))
  const moved = spread(fine, 1)
    .requests.filter(({ chain }) => chain === 'a')
    .map(({ atMs }) => atMs)
  expect(moved[1]! - moved[0]!).toBeCloseTo(10)
  expect(moved[2]! - moved[1]!).toBeCloseTo(15)
})

test('each turn of a conversation starts with the previous ones, and users share only the system prompt', () => {
  const trace = multiRound({
    name: 'm',
    users: 2,
    rounds: 3,
    systemTokens: 64,
    historyTokens: 32,
    questionTokens: 16,
    answerTokens: 16,
    joinMs: 5,
    thinkMs: 0,
    blockTokens: 16,
    named: true,
  })
  const of = (user: string) => trace.requests.filter(({ chain }) => chain === user)
  for (const user of ['user-0', 'user-1']) {
    const [first, second] = of(user)
    expect(second!.promptTokens).toBe(first!.promptTokens + 32)
    expect(second!.blocks.slice(0, first!.blocks.length)).toEqual(first!.blocks)
  }
  const [one, other] = [of('user-0')[0]!.blocks, of('user-1')[0]!.blocks]
  expect(one.slice(0, 8)).toEqual(other.slice(0, 8))
  expect(one.slice(8, 10)).not.toEqual(other.slice(8, 10))
})

test('prompts of a prefix workload share the configured number of prefixes', () => {
  const trace = sharedPrefixes({
    name: 'p',
    requests: 200,
    promptTokens: 640,
    outputTokens: 10,
    prefixes: 4,
    prefixShare: 0.5,
    varyPrompt: 0.2,
    varyOutput: 0,
    blockTokens: 64,
    seed: 1,
  })
  expect(new Set(trace.requests.map(({ blocks }) => String(blocks.slice(0, 8)))).size).toBe(4)
  const lengths = trace.requests.map(({ promptTokens }) => promptTokens)
  expect(Math.min(...lengths)).toBeGreaterThanOrEqual(512)
  expect(Math.max(...lengths)).toBeLessThanOrEqual(768)
})
