/** Flags of production-stack's router about disaggregated prefill, those of #890 among them. */
import { type Draft, compact } from './draft.ts'
import { items, text, tree, type Tree } from './documents.ts'
import type { Flags } from './flags.ts'

/** Address of a decode engine without a slash at its end → its id. */
export type EngineIds = ReadonlyMap<string, string>

/** Returns `split` of a pool, and sets its policy where the source balances the load. */
export function splitOf(draft: Draft, flags: Flags, pool: Tree, decoders: EngineIds): Tree {
  const threshold = Number(flags.one('routing-threshold') ?? 0)
  const strategy = flags.one('load-balancing-strategy')
  const isLmcache = flags.one('disagg-connector-type') === 'lmcache'
  if (strategy !== null) pool['policy'] = strategy === 'least_loaded' ? 'least_loaded' : 'round_robin'
  const receivers = isLmcache ? receiversOf(draft, flags, decoders) : null
  return compact({
    ...(threshold > 0 ? { mode: 'threshold', threshold_tokens: threshold, estimate: 'chars4' } : { mode: 'always' }),
    connector: isLmcache ? 'lmcache' : 'nixl',
    lmcache: receivers,
  })
}

function receiversOf(draft: Draft, flags: Flags, decoders: EngineIds): Tree | null {
  const registry = flags.one('decoder-registry')
  const host = flags.one('decoder-host')
  const [init, alloc] = [portsOf(flags, 'decoder-init-port'), portsOf(flags, 'decoder-alloc-port')]
  if (registry !== null) return registered(draft, registry, decoders)
  if (host !== null && init.length > 0 && alloc.length > 0)
    return oneReceiver(draft, { host, init_ports: init, alloc_ports: alloc }, decoders)
  draft.todo('split.lmcache', 'the source names no receiver. Add host, init_ports and alloc_ports of each decoder.')
  return null
}

/** The source pushes every cache to the one receiver, even if another engine decodes. */
function oneReceiver(draft: Draft, receiver: Tree, decoders: EngineIds): Tree {
  if (decoders.size < 2) return { decoder: receiver }
  draft.todo(
    'split.lmcache.decoders',
    'the source names one receiver for several decoders. Correct those of the others.',
  )
  return { decoders: Object.fromEntries([...decoders.values()].map((id) => [id, receiver])) }
}

const portsOf = (flags: Flags, name: string): number[] =>
  flags
    .all(name)
    .flatMap((value) => value.split(','))
    .map(Number)
    .filter((port) => Number.isInteger(port) && port > 0)

/** The registry names decode engines by URL, the configuration by id. */
function registered(draft: Draft, registry: string, decoders: EngineIds): Tree | null {
  const entries = Object.entries(parsed(registry))
  if (entries.length === 0) draft.todo('--decoder-registry', 'is not a JSON object. Add split.lmcache.decoders.')
  const receivers = entries.flatMap(([url, receiver]) => {
    const id = decoders.get(url.replace(/\/+$/, ''))
    if (id === undefined) {
      draft.todo(`--decoder-registry ${url}`, 'is not one of the decode engines. Correct its URL.')
      return []
    }
    const { receiver_host: host, receiver_init_port: init, receiver_alloc_port: alloc } = tree(receiver)
    return [[id, { host: text(host), init_ports: numbers(init), alloc_ports: numbers(alloc) }] as const]
  })
  return receivers.length === 0 ? null : { decoders: Object.fromEntries(receivers) }
}

function parsed(json: string): Tree {
  try {
    return tree(JSON.parse(json))
  } catch {
    return {}
  }
}

const numbers = (ports: unknown): number[] => (Array.isArray(ports) ? items(ports) : [ports]).map(Number)
