import { expect, it } from 'vitest'
import { decisionsToList, noHistory, addDecisions } from '../../src/dashboard/decision-history.ts'
import { ttftOf } from '../../src/dashboard/decision.ts'
import type { Decision } from '../../src/dashboard/wire.ts'

const decision = (id: string, at: number, more: Partial<Decision> = {}): Decision =>
  ({ id, attempt: 0, at, actual: null, ...more }) as Decision

const streaming = decision('streams', 0, { first_token: { ttft_ms: 40, stages: { ttft: 40 } } })

it('the decision history keeps first tokens of requests although newer requests are pending', () => {
  let history = addDecisions(noHistory, [streaming])
  for (let at = 1; at <= 1_000; at += 1) history = addDecisions(history, [decision(`waits-${at}`, at)])
  expect(history.measured).toEqual([streaming])
  expect(history.latest).toHaveLength(400)
  expect(history.latest[0]?.id).toBe('waits-1000')
})

it('the decision history counts a stream once, by its final outcome', () => {
  const ended = decision('streams', 0, {
    first_token: { ttft_ms: 40, stages: {} },
    actual: { ttft_ms: 41, cached_tokens: 16, result: 'complete' },
  })
  const history = addDecisions(addDecisions(noHistory, [streaming]), [ended])
  expect(history.measured).toEqual([ended])
  expect(history.measured.map(ttftOf)).toEqual([41])
})

it('the decision history keeps at most the newest 400 first tokens', () => {
  let history = noHistory
  for (let at = 0; at < 500; at += 1) history = addDecisions(history, [{ ...streaming, id: `${at}`, at }])
  expect(history.measured).toHaveLength(400)
  expect(history.measured[0]?.id).toBe('499')
})

it('lists few decisions that wait for their first token, and the newest of the others', () => {
  const waiting = Array.from({ length: 60 }, (_, at) => decision(`waits-${at}`, 100 + at))
  const begun = Array.from({ length: 60 }, (_, at) => ({ ...streaming, id: `streams-${at}`, at }))
  const rows = decisionsToList(addDecisions(noHistory, [...waiting, ...begun]), 20)
  expect(rows.map(({ id }) => id).slice(0, 6)).toEqual(
    [59, 58, 57, 56, 55].map((at) => `waits-${at}`).concat('streams-59'),
  )
  expect(rows).toHaveLength(20)
  expect(decisionsToList(addDecisions(noHistory, waiting.slice(0, 3)), 20)).toHaveLength(3)
})
