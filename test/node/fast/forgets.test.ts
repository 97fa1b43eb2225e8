import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { socketOrigin } from '../../../src/platform/node/fast/origin.ts'

it('an engine that nobody asks any more is forgotten with its connections, and known again when it is asked', async () => {
  const server = createServer((request, response) => void request.resume().on('end', () => request.url === '/slow' || response.end('{}')))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  let now = 0
  const origin = socketOrigin({ now: () => now })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const send = (path: string) => origin.send({ target: { id: 'a', url, headers: [], binding: null }, method: 'GET', path, headers: [], body: null, connectMs: 1_000, firstByteMs: 30_000, signal: new AbortController().signal })
  const ask = async () => void (await (await send('/')).read(100))
  await ask()
  expect(origin.size).toBe(1)
  now = 120_000
  await expect.poll(() => origin.size, { timeout: 5_000 }).toBe(0)
  await ask()
  expect(origin.size).toBe(1)
  // Not while it answers.
  const slow = send('/slow').catch(() => 'closed')
  now = 240_000
  await new Promise((resolve) => setTimeout(resolve, 2_200))
  expect(origin.size).toBe(1)
  server.close()
  server.closeAllConnections()
  expect(await slow).toBe('closed')
  origin.close()
})
