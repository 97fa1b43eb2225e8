import { expect, it } from 'vitest'
import { PoolState } from '../../src/core/pool/pool-state.ts'
import { LocalPool } from '../../src/origin/pools/local-pool.ts'
import { withRecording } from '../../src/platform/node/recorded-pool.ts'
import { admission, engine, outcome, pool } from '../kit/pool-fixtures.ts'

it('a recorded pool records a request that has waited for room, from its arrival', async () => {
  const clock = { now: 0 }
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const local = new LocalPool(state, () => clock.now)
  const queue = { maxRequests: 4, maxWaitMs: 5_000 }
  await local.configure(1, pool({ engines: [engine('a', { maxInFlight: 1 })], queue }))
  const lines: { timestamp: number; input_length: number }[] = []
  const recorded = withRecording(local, {
    salt: 1,
    blockTokens: 64,
    now: () => clock.now,
    write: (line) => lines.push(JSON.parse(line) as (typeof lines)[number]),
  })

  const first = await recorded.admit(admission({ promptTokens: 10 }))
  const second = admission({ promptTokens: 20 })
  expect(await recorded.admit(second)).toHaveProperty('refusal.mayWait', true)
  clock.now = 500
  const waiting = recorded.queue!.wait(second, 500)
  if ('refusal' in first) throw new Error('the first request was refused')
  clock.now = 900
  await first.lease.release(outcome())
  const late = await waiting
  if ('refusal' in late) throw new Error('the request that waited was refused')
  await late.lease.release(outcome())

  expect(lines.map(({ timestamp, input_length }) => [timestamp, input_length])).toEqual([
    [0, 10],
    [0, 20],
  ])
})
