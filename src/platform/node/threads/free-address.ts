import { type AddressInfo, createServer } from 'node:net'
import type { Config } from '../../../config.ts'

/**
 * Checks that the address is free, and returns it with a port. Rejects with the system's error if it is in
 * use. Otherwise the port would be shared with another gateway, and each would receive half of the requests.
 */
export function freeAddress({
  host,
  port,
}: {
  readonly host: string
  readonly port: number
}): Promise<{ readonly host: string; readonly port: number }> {
  const server = createServer()
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      const bound = (server.address() as AddressInfo).port
      server.close(() => resolve({ host, port: bound }))
    })
  })
}

/** All threads must open the same port, so it is chosen first. */
export async function withFreeAddresses(config: Config): Promise<Config> {
  const { ttft, epp, keda } = config
  const listen = await freeAddress(config.listen)
  return {
    ...config,
    listen,
    epp: epp === null ? null : { ...epp, listen: await freeAddress(epp.listen) },
    keda: keda === null ? null : { ...keda, listen: await freeAddress(keda.listen) },
    ttft: !ttft.enabled || ttft.listen === null ? ttft : { ...ttft, listen: await freeAddress(ttft.listen) },
  }
}
