import { expect, it } from 'vitest'
import type { AttemptContext } from '../../../src/origin/attempt-context.ts'
import { lmcacheLeg } from '../../../src/origin/disagg/lmcache-leg.ts'

it('a body with names that V8 misreads is served whole: a leg built from it would lack its model or salt', async () => {
  const bytes = new TextEncoder().encode('{"model":"qwen","prompt":"x","\\\\u0063ache_salt":"of-a"}')
  const engine = { id: 'd', url: 'http://d' }
  const pool = { split: { lmcache: { receivers: { d: {} } } } }
  const attempt = {
    exchange: { path: '/v1/completions', source: { body: () => [bytes] } },
    ports: { origin: {} },
    placed: { route: { pool }, engine },
  } as unknown as AttemptContext
  // The response depends only on the body: no engine gets a request.
  expect(await lmcacheLeg(attempt, engine as unknown as Parameters<typeof lmcacheLeg>[1])).toMatchObject({
    finalLeg: { target: engine, body: [bytes], notes: ['kv_transfer=misread'] },
  })
})
