import { expect, it } from 'vitest'
import { alone, type AttemptContext, type FailedOutcome } from '../../../src/origin/attempt-context.ts'
import { placeOnPool } from '../../../src/origin/placement/place-on-pool.ts'
import { placeSecond } from '../../../src/origin/race/second-engine.ts'
import { StageTimer } from '../../../src/origin/stage-timer.ts'
import { ScriptedForwarder } from '../../kit/scripted-forwarder.ts'

/** The second engine of a request at `c-b`, which is late or wedged, after these failures. */
async function secondAfter(failures: readonly Partial<FailedOutcome>[], kind: 'hedge' | 'rescue') {
  const world = new ScriptedForwarder({ 'c-a': [], 'c-b': [], 'c-d': [] })
  const route = world.route('c', ['c-a', 'c-b', 'c-d'])
  const { ports, digests } = world
  const attempt = {
    exchange: world.exchange([route]),
    ports: { ...ports, pool: () => ({ ...ports.pool('c', 'm'), local: null }) },
    digests,
    placed: { route, engine: route.targets.get('c-b')!, attempt: failures.length },
    earlier: failures.map((failure) => ({ engine: route.targets.get('c-a')!, status: null, ...failure })),
    race: alone,
    stepsOf: () => ({ place: placeOnPool }),
  } as unknown as AttemptContext
  await placeSecond(attempt, { kind, attempt: failures.length + 1, stages: new StageTimer({}) })
  return world.bookings[0]!
}

it.each(['hedge', 'rescue'] as const)(
  'a second engine for a request that was too long for one is asked for with a larger context (%s)',
  async (kind) => {
    const { engine, admission } = await secondAfter(
      [
        { failure: 'too_long', limitTokens: 4_000 },
        { failure: 'too_long', limitTokens: 8_000 },
      ],
      kind,
    )
    expect([engine, admission.beyondContextTokens]).toEqual(['c-d', 8_000])
  },
)

it('a second engine for a wedged one is asked for with the attempt that waits there', async () => {
  const { admission } = await secondAfter([{ failure: 'busy' }, { failure: 'busy' }], 'rescue')
  expect(admission).toMatchObject({ attempt: 3, second: { kind: 'rescue', from: 'c-b', attempt: 2 } })
  const { admission: late } = await secondAfter([], 'hedge')
  expect(late).toMatchObject({ attempt: 1, second: { kind: 'hedge' } })
})

it('a second engine may be one that was full', async () => {
  const { engine, admission } = await secondAfter([{ failure: 'busy' }], 'rescue')
  expect([engine, admission.avoid, admission.beyondContextTokens]).toEqual(['c-a', ['c-b'], undefined])
})
