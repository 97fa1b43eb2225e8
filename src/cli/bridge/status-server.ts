import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { addressText } from '../../config/address.ts'
import { type BridgeStatus, isHealthy, statusMetrics } from './status.ts'

interface StatusListener {
  readonly url: string
  close(): Promise<void>
}

/** Serves `/status`, `/metrics` and `/health` (503 while the gateway rejects updates or an engine is unreachable). */
export async function listenForStatus(
  { host, port }: { readonly host: string; readonly port: number },
  status: () => BridgeStatus,
): Promise<StatusListener> {
  const server = createServer((request, response) => {
    const now = status()
    const path = request.url?.split('?')[0]
    const answer = (code: number, type: string, body: string) =>
      void response.writeHead(code, { 'content-type': type }).end(body)
    if (path === '/metrics') answer(200, 'text/plain; version=0.0.4', statusMetrics(now))
    else if (path === '/status') answer(200, 'application/json', JSON.stringify(now))
    else if (path === '/health')
      answer(
        isHealthy(now) ? 200 : 503,
        'application/json',
        JSON.stringify({ status: isHealthy(now) ? 'ok' : 'unwell' }),
      )
    else answer(404, 'text/plain', 'GET /status, /metrics or /health\n')
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `http://${addressText({ host, port: bound })}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
