/** What the first prompts of an engine show of its speed, before their responses end. */
import { describe, expect, it } from 'vitest'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engines, outcome, pool } from '../../kit/pool-fixtures.ts'

const PROMPT_TOKENS = 8_000
/** Time of a prefill on the known engine, ms. */
const KNOWN_MS = 1_000

type Engine = 'a' | 'b'

/** A pool whose engine `a` is known, and whose engine `b` has had no request. */
function site() {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool({ engines: engines('a', 'b'), policy: { name: 'predicted', options: {} } }), 0)
  let now = 0
  const ask = (avoid: readonly Engine[] = []) => {
    const admitted = state.admit(
      admission({ streams: true, promptTokens: PROMPT_TOKENS, avoid: [...avoid], isLastResort: avoid.length > 0 }),
      now,
    )
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    const { placement } = admitted
    return {
      engine: placement.kind === 'whole' ? placement.engine : null,
      predictedMs: admitted.predictedTtftMs!,
      firstToken: (ttft: number) => void state.firstToken(admitted.key, { ttft }, now),
      leave: () => void state.release(admitted.key, endedAs('client_gone'), now),
      end: (cachedTokens = 0) =>
        void state.release(
          admitted.key,
          outcome({ usage: { promptTokens: PROMPT_TOKENS, completionTokens: 20, cachedTokens } }),
          now,
        ),
    }
  }
  const pass = (ms: number): void => void (now += ms)
  /** One request after the other. */
  const serve = (avoid: Engine, times: number): void => {
    for (let at = 0; at < times; at += 1) {
      const request = ask([avoid])
      pass(KNOWN_MS)
      request.firstToken(KNOWN_MS)
      pass(100)
      request.end()
    }
  }
  serve('b', 10)
  return { ask, pass, serve }
}

describe('the first prompts of an engine', () => {
  it('an engine of unknown speed is predicted to be slower while its first prompt takes longer than on its sibling', () => {
    const { ask, pass } = site()
    ask(['a'])
    const atOnce = ask(['a'])
    pass(5 * KNOWN_MS)
    const { predictedMs } = ask(['a'])
    expect(atOnce.predictedMs).toBeLessThan(2.5 * KNOWN_MS)
    // The prompts before it and itself, each at a fifth of the speed; the first may end at any time.
    expect(predictedMs).toBeGreaterThan(2 * 4.5 * KNOWN_MS)
  })

  it('an engine of unknown speed gets no further prompt while its first one takes longer than two on its sibling', () => {
    const { ask, pass } = site()
    ask(['a'])
    pass(4 * KNOWN_MS)
    const next = ask()
    expect(next.engine).toBe('a')
    expect(ask().engine).toBe('a')
  })

  it('an engine of unknown speed is not taken to be slower while its first prompt is in time', () => {
    const { ask, pass } = site()
    const first = ask(['a'])
    pass(KNOWN_MS)
    const { predictedMs } = ask(['a'])
    expect(predictedMs).toBeLessThan(1.2 * KNOWN_MS)
    expect(first.predictedMs).toBeLessThan(1.2 * KNOWN_MS)
  })

  it('an engine of unknown speed teaches its speed with its first token, before its response ends', () => {
    const { ask, pass } = site()
    const first = ask(['a'])
    pass(5 * KNOWN_MS)
    first.firstToken(5 * KNOWN_MS)
    const { predictedMs } = ask(['a'])
    expect(predictedMs).toBeGreaterThan(1.3 * KNOWN_MS)
  })

  it('an engine of unknown speed teaches nothing with the first token of a step that it shares with another prompt', () => {
    const { ask, pass } = site()
    const first = ask(['a'])
    pass(5)
    const second = ask(['a'])
    pass(5 * KNOWN_MS)
    first.firstToken(5 * KNOWN_MS)
    second.firstToken(5 * KNOWN_MS)
    expect(ask(['a']).predictedMs).toBeLessThan(1.2 * KNOWN_MS)
  })

  it('an engine of unknown speed is as fast as its responses show if what they report contradicts their first tokens', () => {
    const { ask, pass } = site()
    const first = ask(['a'])
    pass(KNOWN_MS / 10)
    first.firstToken(KNOWN_MS / 10)
    const assumed = ask(['a'])
    assumed.leave()
    pass(100)
    // The engine had most of the prompt cached.
    first.end(PROMPT_TOKENS * 0.9)
    expect(assumed.predictedMs).toBeLessThan(0.7 * KNOWN_MS)
    expect(ask(['a']).predictedMs).toBeGreaterThan(0.85 * KNOWN_MS)
  })
})

it('an engine of known speed is not taken to be slower because one prompt takes long', () => {
  const { ask, pass, serve } = site()
  serve('a', 10)
  ask(['a'])
  pass(5 * KNOWN_MS)
  expect(ask(['a']).predictedMs).toBeLessThan(1.2 * KNOWN_MS)
})
