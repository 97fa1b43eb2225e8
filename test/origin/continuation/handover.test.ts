import { expect, it } from 'vitest'
import type { Continuable } from '../../../src/core/continuation/continuable.ts'
import { OutputRecord } from '../../../src/core/continuation/output-record.ts'
import type { AttemptContext, FailedOutcome } from '../../../src/origin/attempt-context.ts'
import { handOver } from '../../../src/origin/continuation/handover.ts'
import { newState } from '../../../src/origin/continuation/stream-state.ts'
import { placeOnPool } from '../../../src/origin/placement/place-on-pool.ts'
import { StageTimer } from '../../../src/origin/stage-timer.ts'
import { chat } from '../../../src/protocols/chat.ts'
import { type Meeting, ScriptedForwarder } from '../../kit/scripted-forwarder.ts'

const TOO_LONG = JSON.stringify({
  error: {
    message: "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097.",
    type: 'BadRequestError',
    code: 400,
  },
})

/** The stream of an engine `c-a` that has failed before its first output is repeated at the others. */
async function handOverFrom(failed: readonly Partial<FailedOutcome>[], engines: Readonly<Record<string, Meeting[]>>) {
  const world = new ScriptedForwarder({ 'c-a': [], ...engines })
  const route = world.route('c', ['c-a', ...Object.keys(engines)])
  const { ports, digests } = world
  const engine = route.targets.get('c-a')!
  const attempt = {
    exchange: world.exchange([route]),
    ports: { ...ports, pool: () => ({ ...ports.pool('c', 'm'), local: null }) },
    placed: { route, engine },
    stages: new StageTimer({}),
    stepsOf: () => ({ place: placeOnPool }),
  } as unknown as AttemptContext
  const request = { stops: [], repeats: false, barrier: null } as unknown as Continuable
  const result = await handOver({
    attempt,
    state: newState(request, chat.asCompletion!, new OutputRecord(0)),
    digests,
    cause: 'failed',
    how: 'replay',
    booked: failed.length,
    failed: failed.map((one) => ({ engine, failure: 'reset', status: null, ...one })),
    probeSoon: () => {},
  })
  return { world, result }
}

it('a stream whose request was too long for an engine is handed over to one with a larger context', async () => {
  const { world, result } = await handOverFrom([{ failure: 'too_long', limitTokens: 4_096 }, {}], { 'c-b': [] })
  expect(result).toMatchObject({ kind: 'moved', booked: 1 })
  expect(world.bookings[0]!.admission).toMatchObject({
    attempt: 2,
    beyondContextTokens: 4_096,
    avoid: ['c-a', 'c-a', 'c-a'],
  })
})

it('a stream that the next engine refuses as too long is handed over to one with a larger context', async () => {
  const { world, result } = await handOverFrom([{}], { 'c-b': [{ status: 400, body: TOO_LONG }], 'c-d': [] })
  expect(result).toMatchObject({ kind: 'moved', booked: 2 })
  expect(world.bookings.map(({ engine }) => engine)).toEqual(['c-b', 'c-d'])
  expect(world.bookings.map(({ admission }) => admission.beyondContextTokens)).toEqual([undefined, 4_096])
  expect(world.bookings[0]!.outcomes).toMatchObject([{ result: 'engine_failed', failure: 'busy' }])
})
