import { describe, expect, it } from 'vitest'
import type { AcquiredPlacement } from '../../../src/origin/placement/acquired-placement.ts'
import type { Exchange } from '../../../src/origin/exchange.ts'
import { abortedUse, outputPace } from '../../../src/origin/relay/aborted-use.ts'
import type { EngineTarget } from '../../../src/ports/engine-target.ts'

const newEngine = (): EngineTarget => ({ kind: 'server', id: 'a', url: 'http://a', headers: [], binding: null })

function attempt({ stream = false, limit, sequences }: { stream?: boolean; limit?: number; sequences?: number }) {
  const admission = limit === undefined ? {} : { outputLimitTokens: limit }
  return {
    exchange: { stream, path: '/p', source: { admission: () => admission } } as unknown as Exchange,
    placed: { promptTokens: 7, sequences, route: {} } as unknown as AcquiredPlacement,
  }
}

describe('the use of a request whose client leaves', () => {
  const engine = newEngine()
  outputPace.learn(engine, '/p', { tokens: 100, ms: 1_000 })

  it('the use of a request whose client leaves is the prompt, and the output of the time', () => {
    expect(abortedUse(attempt({}), engine, 2_000)).toEqual({ promptTokens: 7, outputTokens: 200 })
  })

  it('the use of a request whose client leaves is within the limit of each answer', () => {
    expect(abortedUse(attempt({ limit: 50 }), engine, 2_000)).toEqual({ promptTokens: 7, outputTokens: 50 })
    expect(abortedUse(attempt({ limit: 50, sequences: 3 }), engine, 2_000)).toEqual({
      promptTokens: 7,
      outputTokens: 150,
    })
  })

  it('the use of a request whose client leaves is unknown while no answer of the engine was complete, unless it has no output', () => {
    const fresh = newEngine()
    expect(abortedUse(attempt({ limit: 50 }), fresh, 2_000)).toBeNull()
    expect(abortedUse(attempt({ limit: 0 }), fresh, 2_000)).toEqual({ promptTokens: 7, outputTokens: 0 })
    expect(abortedUse(attempt({ stream: true, limit: 50 }), fresh, 2_000)).toEqual({ promptTokens: 7, outputTokens: 0 })
  })
})
