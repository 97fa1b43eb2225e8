import { describe, expect, it } from 'vitest'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engines, outcome, pool } from '../../kit/pool-fixtures.ts'

const TTFT_MS = 200

describe('an engine that has become slow, before any of its responses ends', () => {
  const site = () => {
    const state = new PoolState({ random: () => 0.5, epoch: 'e' })
    state.configure(1, pool({ engines: engines('a', 'b'), policy: { name: 'predicted', options: {} } }), 0)
    let now = 0
    /** A request at engine a, with its prediction. Its response goes on. */
    const send = (ttft: number): { predictedMs: number; end: () => void; leave: () => void } => {
      const admitted = state.admit(admission({ streams: true, avoid: ['b'], isLastResort: true }), now)
      if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
      now += ttft
      state.firstToken(admitted.key, { ttft }, now)
      return {
        predictedMs: admitted.predictedTtftMs!,
        end: () => void state.release(admitted.key, outcome(), (now += 100)),
        leave: () => void state.release(admitted.key, endedAs('client_gone'), (now += 100)),
      }
    }
    for (let at = 0; at < 30; at++) send(TTFT_MS).end()
    return { send, passS: (seconds: number) => void (now += 1000 * seconds) }
  }

  it('an engine that has become slow is predicted so after two first tokens, and not after one', () => {
    const { send } = site()
    expect(send(10 * TTFT_MS).predictedMs).toBeLessThan(2 * TTFT_MS)
    expect(send(10 * TTFT_MS).predictedMs).toBeLessThan(2 * TTFT_MS)
    const { predictedMs } = send(10 * TTFT_MS)
    expect(predictedMs).toBeGreaterThan((10 * TTFT_MS) / 1.2)
    expect(predictedMs).toBeLessThan(1.2 * 10 * TTFT_MS)
  })

  it('an engine that has become slow is predicted as before after one first token in time, or a minute', () => {
    const { send, passS } = site()
    const become = (): void => {
      const slow = [send(10 * TTFT_MS), send(10 * TTFT_MS)]
      // The steps of an engine with running requests are learned apart.
      for (const { leave } of slow) leave()
    }
    become()
    const inTime = send(TTFT_MS)
    expect(inTime.predictedMs).toBeGreaterThan(5 * TTFT_MS)
    inTime.leave()
    const next = send(TTFT_MS)
    expect(next.predictedMs).toBeLessThan(2 * TTFT_MS)
    next.leave()
    become()
    passS(60)
    expect(send(TTFT_MS).predictedMs).toBeLessThan(2 * TTFT_MS)
  })
})
