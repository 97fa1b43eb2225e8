/** A process at a peer's address that does not know the secret tells a gateway to drain its engines. */
import http from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { freeAddress } from '../../src/platform/node/threads/start.ts'
import { chat, documentOf, MODEL, summary, waitFor } from './client.ts'
import type { Figure } from './figure.ts'
import { Site } from './processes.ts'

const SECRET = 'replica-secret-of-no-use-elsewhere'
const REQUESTS = 60

export async function fakeReplica(): Promise<Figure[]> {
  const site = new Site()
  const heard = { connections: 0, secret: 0 }
  const server = http.createServer((request, response) => {
    heard.connections++
    if (JSON.stringify(request.headers).includes(SECRET)) heard.secret++
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    const say = (...words: readonly (readonly unknown[])[]): void => void response.write(`${JSON.stringify(words)}\n`)
    say(['hello', { wire: 1, id: 'stranger', version: '0.1.0' }], ['all'])
    for (const engine of ['e0', 'e1', 'e2'])
      say(['signal', ['attacked', MODEL], { kind: 'drain', engine, draining: true }, Date.now()])
    const beat = setInterval(() => say(), 200)
    response.on('close', () => clearInterval(beat))
  })
  try {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { urls } = await site.engines(3)
    const own = await freeAddress({ host: '127.0.0.1', port: 0 })
    const replicas = {
      listen: `127.0.0.1:${own.port}`,
      peers: [`127.0.0.1:${(server.address() as AddressInfo).port}`],
      secret: SECRET,
    }
    const gateway = await site.gateway(documentOf(urls, { replicas }))
    await waitFor(() => heard.connections > 0, 3_000)
    // The signals have been taken by then.
    await waitFor(() => false, 500)
    const answers = await Promise.all(Array.from({ length: REQUESTS }, () => chat(gateway.port)))
    const lost = answers.filter(({ complete }) => !complete).length
    const attack = 'a stranger at a replica’s address drains all engines'
    return [
      { attack, figure: 'requests_refused', value: lost, goal: 0, note: summary(answers) },
      { attack, figure: 'secrets_shown', value: heard.secret, goal: 0, note: `${heard.connections} connections` },
    ]
  } finally {
    server.close()
    server.closeAllConnections()
    await site.stop()
  }
}
