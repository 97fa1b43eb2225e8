import { createServer, type AddressInfo } from 'node:net'

/**
 * The address with a port that nobody listens on. Rejects with the system's error when it is taken: a port that is
 * shared would otherwise be shared with another gateway too, and each would see half of the requests.
 */
export function freeAddress({ host, port }: { readonly host: string; readonly port: number }): Promise<{ readonly host: string; readonly port: number }> {
  const server = createServer()
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      const bound = (server.address() as AddressInfo).port
      server.close(() => resolve({ host, port: bound }))
    })
  })
}
