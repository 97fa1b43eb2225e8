/** A server of a test that is no engine, such as a proxy, on a free port of this machine. */
import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'

export interface LocalServer {
  readonly port: number
  /** The address for HTTP without TLS. */
  readonly url: string
  /** Ends all connections. */
  disconnect(): void
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** Listens with a server of node:net, node:tls or node:http. */
export async function serveLocally(server: Server): Promise<LocalServer> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const disconnect = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  const close = async (): Promise<void> => {
    disconnect()
    if (server.listening) await new Promise((resolve) => server.close(resolve))
  }
  return { port, url: `http://127.0.0.1:${port}`, disconnect, close, [Symbol.asyncDispose]: close }
}
