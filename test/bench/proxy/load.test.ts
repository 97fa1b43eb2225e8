import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { runLoad, startScript } from '../../../packages/bench/proxy/processes.ts'

const opened: { stop(): void }[] = []
afterEach(() => {
  for (const one of opened.splice(0)) one.stop()
})

const FEW = { connections: 2, bytes: 100, requests: 6, warmRequests: 2 }

it('load counts streams and whole answers of each port of the stub engine', async () => {
  const engine = await startScript('stub-engine.ts', ['0', '2'])
  opened.push(engine)
  expect(new Set(engine.ports).size).toBe(2)
  for (const [at, stream] of [true, false].entries()) {
    const { errors, requests } = await runLoad({ ...FEW, port: engine.ports[at]!, stream }, null)
    expect({ stream, errors, requests }).toEqual({ stream, errors: 0, requests: 6 })
  }
})

it('load counts answers with another status than 200 as errors', async () => {
  const server = http.createServer((request, response) =>
    request.resume().on('end', () => response.writeHead(503).end('no')),
  )
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))
  opened.push({ stop: () => void server.close() })
  const { errors } = await runLoad({ ...FEW, port: (server.address() as AddressInfo).port }, null)
  expect(errors).toBeGreaterThanOrEqual(8)
})

it('a stub engine streams at the pace that was set last', async () => {
  const engine = await startScript('stub-engine.ts', ['0'])
  opened.push(engine)
  const url = `http://127.0.0.1:${engine.port}`
  await fetch(`${url}/pace/5/1/3`)
  const body = JSON.stringify({ model: 'fake', stream: true, messages: [] })
  const text = await (await fetch(`${url}/v1/chat/completions`, { method: 'POST', body })).text()
  expect(text.match(/token /g)).toHaveLength(3)
})
