import { expect, it } from 'vitest'
import { ownRequest } from '../../../src/origin/own-request.ts'
import { socketOrigin } from '../../../src/platform/node/http1/origin.ts'
import { SILENCE } from '../../kit/fake-answer.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { until } from '../../wait.ts'

it('an unused engine is forgotten with its connections, and connected again on the next request', async () => {
  const engines = await Promise.all([0, 1].map(() => FakeEngine.open({ 'GET /slow': SILENCE })))
  let now = 0
  const origin = socketOrigin({ now: () => now, sweepMs: 5 })
  const send = (at: number, path: string) => {
    const { url } = engines[at]!
    const target = { id: 'a', url, headers: [], binding: null }
    return origin.send(ownRequest(target, path, { connectMs: 1_000, limitMs: 30_000 }))
  }
  const ask = async (at: number) => void (await (await send(at, '/')).read(100))
  await ask(0)
  expect(origin.size).toBe(1)
  now = 120_000
  await until(() => origin.size === 0)
  await ask(0)
  await ask(1)
  expect(origin.size).toBe(2)
  // The engine that is sending a response is not idle: only the other one is.
  const slow = send(0, '/slow').catch(() => 'closed')
  now = 240_000
  await until(() => origin.size === 1)
  for (const engine of engines) await engine.close()
  expect(await slow).toBe('closed')
  origin.close()
})
