/** From where an address is reachable, as far as it can be inferred. */
import { isLoopback } from '../../config/address.ts'
import { urlHost } from '../../url.ts'

export type Reach = 'loopback' | 'private' | 'public'

/** Names that resolve only inside a network: no dot, or a reserved suffix. */
const INSIDE = /^[^.]+$|\.(local|internal|lan|home|svc|cluster\.local|localdomain)$/

export function reachOf(url: string): Reach {
  const host = urlHost(new URL(url)).toLowerCase()
  if (isLoopback(host)) return 'loopback'
  return isPrivateAddress(host) || (!host.includes(':') && INSIDE.test(host)) ? 'private' : 'public'
}

function isPrivateAddress(host: string): boolean {
  const parts = /^(\d+)\.(\d+)\.\d+\.\d+$/.exec(host)
  if (parts === null) return /^f[cd][0-9a-f]{2}:|^fe[89ab][0-9a-f]:/.test(host)
  const [first, second] = [Number(parts[1]), Number(parts[2])]
  if (first === 10 || (first === 192 && second === 168) || (first === 169 && second === 254)) return true
  return (first === 172 && second >= 16 && second < 32) || (first === 100 && second >= 64 && second < 128)
}
