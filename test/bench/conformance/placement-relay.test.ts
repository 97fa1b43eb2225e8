import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { openPlacementRelay } from '../../../packages/bench/conformance/placement-relay.ts'
import { until } from '../../wait.ts'

const opened: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  opened.push(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

it('a placement relay records requests of clients and passes the first bytes before the last', async () => {
  let finish = (): void => {}
  const target = await listen(
    createServer((_, response) => {
      response.write('first')
      finish = () => response.end(' last')
    }),
  )
  const relay = await openPlacementRelay(target, 'client-')
  opened.push(() => relay.stop())
  await fetch(`${relay.url}/health`, { headers: { 'x-request-id': 'trial-1' } }).then(({ body }) => {
    finish()
    return body!.cancel()
  })
  const response = await fetch(relay.url, { method: 'POST', body: 'x', headers: { 'x-request-id': 'client-1' } })
  const reader = response.body!.getReader()
  expect(Buffer.from((await reader.read()).value!).toString()).toBe('first')
  finish()
  expect(Buffer.from((await reader.read()).value!).toString()).toBe(' last')
  expect(relay.placed.map(({ id }) => id)).toEqual(['client-1'])
})

it('a placement relay ends the request at the engine when its client leaves', async () => {
  let hasLeft = false
  const target = await listen(
    createServer((request, response) => {
      request.on('close', () => {})
      response.on('close', () => (hasLeft = true))
      response.write('first')
    }),
  )
  const relay = await openPlacementRelay(target, 'client-')
  opened.push(() => relay.stop())
  const client = new AbortController()
  await fetch(relay.url, { signal: client.signal })
  client.abort()
  await until(() => hasLeft)
  expect(hasLeft).toBe(true)
})
