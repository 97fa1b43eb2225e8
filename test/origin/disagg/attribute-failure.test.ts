import { expect, it } from 'vitest'
import type { AttemptContext } from '../../../src/origin/attempt-context.ts'
import { attributeFailure } from '../../../src/origin/disagg/attribute-failure.ts'
import type { EngineTarget } from '../../../src/ports/engine-target.ts'
import { OriginError } from '../../../src/ports/origin.ts'

const target = (id: string): EngineTarget => ({ kind: 'server', id, url: `http://${id}`, headers: [], binding: null })

/** The engine blamed for a 500 of the decode engine, if the health check of the prefill engine fails like this. */
async function blamed(failure: 'first_byte_timeout' | 'gateway_limit' | 'connect'): Promise<string> {
  const attempt = {
    exchange: { id: 'id', signal: new AbortController().signal },
    ports: {
      log: { warn: () => {} },
      origin: { send: () => Promise.reject(new OriginError(failure, 'no answer')) },
    },
    placed: { route: { cluster: { id: 'c' } } },
  } as unknown as AttemptContext
  const failed = { engine: target('decode'), failure: 'status_5xx', status: 500 } as const
  return (await attributeFailure(attempt, failed, target('prefill'))).engine.id
}

it('a decode engine’s failure counts against a prefill engine that is gone, not one that is slow', async () => {
  expect(await blamed('connect')).toBe('prefill')
  expect(await blamed('first_byte_timeout')).toBe('decode')
  expect(await blamed('gateway_limit')).toBe('decode')
})
