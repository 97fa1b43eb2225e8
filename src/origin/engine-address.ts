/** Addresses of engines, as proxies name them. */
import type { EngineTarget } from '../ports/engine-target.ts'

const known = new WeakMap<EngineTarget, string>()

/** `host:port` of an engine; an IPv6 host is in brackets. */
export function addressOf(target: EngineTarget): string {
  let address = known.get(target)
  if (address === undefined) {
    const { hostname, port, protocol } = new URL(target.url)
    const usual = protocol === 'https:' ? '443' : '80'
    known.set(target, (address = `${hostname}:${port === '' ? usual : port}`))
  }
  return address
}

/** Host of an address, IPv6 in brackets. */
const hostIn = (address: string): string => address.slice(0, address.lastIndexOf(':'))

/** The engine at an address. undefined: none is there. */
export function targetAt(targets: ReadonlyMap<string, EngineTarget>, address: string): EngineTarget | undefined {
  for (const target of targets.values()) if (addressOf(target) === address) return target
  return undefined
}

/** Whether an engine is in a set of addresses, where a host stands for all of its ports. */
export function isInSubset(target: EngineTarget, subset: ReadonlySet<string>): boolean {
  const address = addressOf(target)
  return subset.has(address) || subset.has(hostIn(address))
}

/** Ids of the engines that are outside a set of addresses. */
export function idsOutside(targets: ReadonlyMap<string, EngineTarget>, subset: ReadonlySet<string>): readonly string[] {
  const outside: string[] = []
  for (const [id, target] of targets) if (!isInSubset(target, subset)) outside.push(id)
  return outside
}
