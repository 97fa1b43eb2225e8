import { expect, it } from 'vitest'
import { OutputPace } from '../../../src/origin/relay/output-pace.ts'
import type { EngineTarget } from '../../../src/ports/engine-target.ts'

const engineOf = (id: string): EngineTarget => ({ kind: 'server', id, url: `http://${id}`, headers: [], binding: null })
const [a, b] = [engineOf('a'), engineOf('b')]

it('the output of an engine in a time is that of its complete answers at the same endpoint', () => {
  const pace = new OutputPace()
  pace.learn(a, '/v1/messages?beta=true', { tokens: 300, ms: 3_000 })
  pace.learn(a, '/v1/messages', { tokens: 100, ms: 5_000 })
  expect(pace.tokensIn(a, '/v1/messages', 2_000)).toBeCloseTo(100, -1)
  expect(pace.tokensIn(a, '/v1/completions', 2_000)).toBeNull()
  expect(pace.tokensIn(b, '/v1/messages', 2_000)).toBeNull()
})

it('the pace follows an engine that becomes slower, by the tokens of its later answers', () => {
  const pace = new OutputPace()
  pace.learn(a, '/p', { tokens: 10_000, ms: 10_000 })
  for (let sent = 0; sent < 30; sent++) pace.learn(a, '/p', { tokens: 1_000, ms: 10_000 })
  expect(pace.tokensIn(a, '/p', 10_000)).toBeLessThan(2_000)
  expect(pace.tokensIn(a, '/p', 10_000)).toBeGreaterThanOrEqual(1_000)
})

it('answers without output, and in no time, are no division by zero', () => {
  const pace = new OutputPace()
  pace.learn(a, '/p', { tokens: 0, ms: 5 })
  expect(pace.tokensIn(a, '/p', 5)).toBeNull()
  pace.learn(a, '/p', { tokens: 4, ms: 0 })
  expect(pace.tokensIn(a, '/p', 3)).toBe(12)
})
