import { expect, it } from 'vitest'
import { FakeEngine } from './fake-engine.ts'
import { openGateway, runtimes } from './gateway.ts'
import { completion } from './sse.ts'

it.each(runtimes)('a gateway on %s retries on an engine that works', async (_name, runtime) => {
  await using broken = await FakeEngine.open({ 'POST *': { status: 500 } })
  await using working = await FakeEngine.open({ 'POST *': { body: completion('hello') } })
  await using gateway = await openGateway({ runtime, engines: [broken, working], pool: { policy: 'round_robin' } })
  for (let sent = 0; sent < 4; sent++) expect((await gateway.chat()).status).toBe(200)
  expect(broken.posts.length).toBeGreaterThan(0)
  await gateway.idle()
})
