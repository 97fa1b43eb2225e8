/** LMCache servers send heartbeats and events here about every second. */
export const REGISTRY_PREFIX = '/lmcache/'

export interface RegistryPath {
  readonly cluster: string
  /** Token in the path; null: absent. */
  readonly token: string | null
  /** Rest of the path, with `:id` for an instance. */
  readonly route: string
  readonly id: string
  /** The path without the token, for logs. */
  readonly withoutToken: string
}

const FIRST_SEGMENTS: ReadonlySet<string> = new Set([
  'instances',
  'events',
  'directory',
  'healthz',
  'cache',
  'quota',
  'metrics',
])

/** `/lmcache/CLUSTER/…`, `/lmcache/CLUSTER/TOKEN/…`. */
export function readPath(path: string): RegistryPath {
  const [cluster = '', ...rest] = path.slice(REGISTRY_PREFIX.length).split('/').map(decoded)
  const [first = ''] = rest
  const hasToken = first !== '' && !FIRST_SEGMENTS.has(first)
  const segments = hasToken ? rest.slice(1) : rest
  const id = segments[0] === 'instances' && segments.length > 1 ? (segments[1] ?? '') : ''
  const route = segments.map((segment, at) => (at === 1 && segments[0] === 'instances' ? ':id' : segment)).join('/')
  const tail = segments.join('/').slice(0, 100)
  return {
    cluster: cluster.slice(0, 100),
    token: hasToken ? first : null,
    route,
    id,
    withoutToken: `${REGISTRY_PREFIX}${cluster.slice(0, 63)}/${hasToken ? '…/' : ''}${tail}`,
  }
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
