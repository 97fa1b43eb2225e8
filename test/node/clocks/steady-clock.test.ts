import * as fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { steadyClock } from '../../../src/platform/node/steady-clock.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

/** A machine with a clock that a test sets. */
function machine() {
  const times = { wall: 1_800_000_000_000, steady: 5 }
  const now = steadyClock({ wall: () => Math.floor(times.wall), steady: () => times.steady })
  const pass = (ms: number): number => {
    times.wall += ms
    times.steady += ms
    return now()
  }
  return { times, now, pass }
}

describe('a steady clock', () => {
  it('a steady clock never decreases, and runs at most a hundredth slower, however the system clock is set', () => {
    const step = fc.record({
      pass: fc.double({ min: 0, max: 5_000, noNaN: true }),
      set: fc.oneof(fc.constant(0), fc.double({ min: -1e8, max: 1e8, noNaN: true })),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
        const { times, now, pass } = machine()
        let last = now()
        for (const { pass: ms, set } of steps) {
          times.wall += set
          const at = pass(ms)
          // Both ends are whole milliseconds.
          expect(at - last).toBeGreaterThanOrEqual(Math.floor(0.99 * ms - 1))
          expect(at).toBeGreaterThanOrEqual(last)
          last = at
        }
      }),
    )
  })

  it('a steady clock follows the system clock 1 s after a step forward, and a hundred times as long after a step back', () => {
    const { times, now, pass } = machine()
    expect(pass(500)).toBe(times.wall)
    times.wall += 3_600_000
    pass(1_000)
    expect(now()).toBe(times.wall)
    times.wall -= 1_000
    for (let s = 0; s < 102; s++) pass(1_000)
    expect(now() - times.wall).toBeLessThan(2)
  })
})

const realNow = Date.now
afterEach(() => {
  Date.now = realNow
})

it('a gateway keeps probing engines if the system clock is set back', async () => {
  let status = 200
  const engine = await FakeEngine.open({ '*': () => ({ status }) })
  const { url } = engine
  const gateway = await startNodeGateway({
    clusters: [{ id: 'c', pools: [{ model: 'm', stats_interval_ms: 1_000, engines: [{ id: 'e', url }] }] }],
  })
  const isHealthy = async () =>
    (
      (await (await fetch(`${gateway.url}/v1/firstlight/fleet`)).json()) as {
        pools: { engines: { healthy: boolean; stats_age_ms: number | null }[] }[]
      }
    ).pools[0]!.engines[0]!.healthy
  const turns = async (to: number) => {
    status = to
    await expect.poll(isHealthy).toBe(to < 500)
  }
  await turns(500)
  Date.now = () => realNow() - 3_600_000
  await turns(200)
  await turns(500)
  await gateway.stop(AbortSignal.abort())
  await engine.close()
})
