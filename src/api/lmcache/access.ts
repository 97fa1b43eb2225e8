/** Who may speak to the registry, and what about. LMCache servers send no headers, so a token may stand in the path. */
import { Failure } from '../../failure.ts'
import type { PoolRoute } from '../../origin/exchange.ts'
import type { Door } from '../door.ts'
import { idParam, REGISTRY_PREFIX, type Incoming } from '../incoming.ts'
import { bearer, Keyring } from '../keys.ts'

export interface RegistryPath {
  readonly cluster: string
  /** As it stands in the path; null: not there. */
  readonly token: string | null
  /** What follows, with `:id` for an instance. */
  readonly route: string
  readonly id: string
  /** For people: without the token. */
  readonly shown: string
}

const FIRST_WORDS: ReadonlySet<string> = new Set(['instances', 'events', 'directory', 'healthz', 'cache', 'quota', 'metrics'])

/** `/lmcache/CLUSTER/…`, `/lmcache/CLUSTER/TOKEN/…`. */
export function readPath(path: string): RegistryPath {
  const [cluster = '', ...rest] = path.slice(REGISTRY_PREFIX.length).split('/').map(decoded)
  const [first = ''] = rest
  const hasToken = first !== '' && !FIRST_WORDS.has(first)
  const words = hasToken ? rest.slice(1) : rest
  const id = words[0] === 'instances' && words.length > 1 ? (words[1] ?? '') : ''
  const route = words.map((word, at) => (at === 1 && words[0] === 'instances' ? ':id' : word)).join('/')
  return { cluster: cluster.slice(0, 100), token: hasToken ? first : null, route, id, shown: `${REGISTRY_PREFIX}${cluster.slice(0, 63)}/${hasToken ? '…/' : ''}${words.join('/').slice(0, 100)}` }
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** The registries of a cluster that this server may speak to; fails with `not_found`, `key_missing` or `key_wrong`. */
export async function admitServer(door: Door, { request }: Incoming, { cluster, token, id, route }: RegistryPath): Promise<readonly PoolRoute[]> {
  const kept = door.catalog.routes.filter((one) => one.cluster.id === cluster && one.pool.lmcache?.registry === true)
  const secret = token ?? bearer(request.headers)
  const opened = secret === null ? null : await ringOf(door).find(secret)
  const mine = kept.filter((one) => opened?.includes(one) === true)
  if (route.includes(':id')) idParam(id, 'instance')
  if (mine.length > 0) return mine
  if (token !== null) throw new Failure('key_wrong', 'This token opens no LMCache registry of this cluster. Compare it with lmcache.token.')
  await door.keeper.admin(request.headers)
  // Where admins need no key, a token still means that one is needed.
  const admitted = door.config.admin === null ? kept.filter(({ pool }) => pool.lmcache?.token === null) : kept
  if (admitted.length > 0) return admitted
  if (kept.length > 0) throw new Failure('key_missing', 'The token is missing. Send lmcache.token as `authorization: Bearer`, or as the path’s part after the cluster.')
  throw new Failure('not_found', `No pool of the cluster '${cluster}' is a registry. Set lmcache: { registry: true } on one.`)
}

const rings = new WeakMap<Door, Keyring<readonly PoolRoute[]>>()

/** Made at the first question, one for each gateway. */
function ringOf(door: Door): Keyring<readonly PoolRoute[]> {
  const known = rings.get(door)
  if (known !== undefined) return known
  const bySecret = new Map<string, PoolRoute[]>()
  for (const route of door.catalog.routes) {
    const secret = route.pool.lmcache?.registry === true ? route.pool.lmcache.token : null
    if (secret !== null) bySecret.set(secret, [...(bySecret.get(secret) ?? []), route])
  }
  const ring = new Keyring<readonly PoolRoute[]>([...bySecret].map(([secret, holder]) => ({ secret, holder })))
  rings.set(door, ring)
  return ring
}
