/** The listener of `ttft.listen`: plain HTTP for reporters beside the engines, which use neither TLS nor keys. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { splitUrl } from '../../url.ts'
import type { Config } from '../../config.ts'
import { addressText } from '../../config/address.ts'
import type { Gateway } from '../../gateway.ts'
import { collecting, NodeBody } from './inbound/node-body.ts'
import type { ListenOptions } from './listen.ts'

interface ReportListener {
  /** `host:port`. */
  readonly address: string
  close(): Promise<void>
}

const HEAD_MS = 5_000

const IDLE_MS = 75_000

/** Serves `/ttft_report` only. Rejects with the system's error if the port cannot be opened. */
async function listenForReports(
  gateway: Pick<Gateway, 'fetch'>,
  { host, port, reusePort = false }: Pick<ListenOptions, 'host' | 'port' | 'reusePort'>,
): Promise<ReportListener> {
  const server = createAdaptorServer({
    fetch: (request: Request, env: unknown) => {
      const { incoming } = env as HttpBindings
      // The path that the gateway receives: the adapter has resolved `..`.
      if (!/^\/ttft_report(?:\/|$)/.test(splitUrl(request.url).path))
        return new Response('{"detail":"not found"}', { status: 404, headers: { 'content-type': 'application/json' } })
      return gateway.fetch(collecting(request, new NodeBody(incoming)), {
        background: (work) => void work.catch(() => {}),
        client: env,
        remoteAddress: incoming.socket.remoteAddress ?? null,
        isReportListener: true,
      })
    },
    serverOptions: {
      headersTimeout: HEAD_MS,
      requestTimeout: HEAD_MS,
      keepAliveTimeout: IDLE_MS,
      maxHeaderSize: 16_384,
    },
  }) as Server
  // Reporters disconnect in the middle of a response, too.
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

export async function openReports(
  gateway: Pick<Gateway, 'fetch'>,
  { ttft: { enabled, listen: at } }: Config,
  reusePort: boolean,
): Promise<ReportListener | null> {
  return enabled && at !== null ? listenForReports(gateway, { ...at, reusePort }) : null
}
