/** A port of its own for reporters that speak neither TLS nor keys: plain HTTP beside the engines. */
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { split } from '../../api/incoming.ts'
import { addressText } from '../../config/values.ts'
import type { Gateway } from '../../gateway.ts'
import { collecting, NodeBody } from './inbound/node-body.ts'
import type { ListenOptions } from './serve.ts'

export interface ReportListener {
  /** For people: `host:port`. */
  readonly address: string
  close(): Promise<void>
}

const headMs = 5_000
const idleMs = 75_000

/** Passes on `/ttft_report` and nothing else. Rejects with the system's error when the port cannot be had. */
export async function listenForReports(gateway: Pick<Gateway, 'fetch'>, { host, port, reusePort = false }: Pick<ListenOptions, 'host' | 'port' | 'reusePort'>): Promise<ReportListener> {
  const server = createAdaptorServer({
    fetch: (request: Request, env: unknown) => {
      const { incoming } = env as HttpBindings
      // The path that the gateway will see: the adapter has taken `..` out of what was sent.
      if (!/^\/ttft_report(?:\/|$)/.test(split(request.url).path)) return new Response('{"detail":"not found"}', { status: 404, headers: { 'content-type': 'application/json' } })
      return gateway.fetch(collecting(request, new NodeBody(incoming)), { background: (work) => void work.catch(() => {}), client: env, remoteAddress: incoming.socket.remoteAddress ?? null })
    },
    serverOptions: { headersTimeout: headMs, requestTimeout: headMs, keepAliveTimeout: idleMs, maxHeaderSize: 16_384 },
  }) as Server
  // Reporters leave without a word, also in the middle of the answer.
  server.on('clientError', (_error, socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, reusePort }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const { port: bound } = server.address() as AddressInfo
  return {
    address: addressText({ host, port: bound }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
