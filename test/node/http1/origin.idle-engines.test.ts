import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { socketOrigin } from '../../../src/platform/node/http1/origin.ts'
import { until } from '../../wait.ts'

it('an unused engine is forgotten with its connections, and connected again on the next request', async () => {
  const engines = await Promise.all([engine(), engine()])
  let now = 0
  const origin = socketOrigin({ now: () => now, sweepMs: 5 })
  const send = (at: number, path: string) => {
    const url = `http://127.0.0.1:${(engines[at]!.address() as AddressInfo).port}`
    return origin.send({
      target: { id: 'a', url, headers: [], binding: null },
      method: 'GET',
      path,
      headers: [],
      body: null,
      connectMs: 1_000,
      firstByteMs: 30_000,
      signal: new AbortController().signal,
    })
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
  for (const server of engines) {
    server.close()
    server.closeAllConnections()
  }
  expect(await slow).toBe('closed')
  origin.close()
})

async function engine(): Promise<Server> {
  const server = createServer(
    (request, response) => void request.resume().on('end', () => request.url === '/slow' || response.end('{}')),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}
