/**
 * One document for an edge and its regions: what each of them has of it. A cluster with `pools` and a `gateway` is a
 * region: the edge has its gateway, and the region has its pools.
 */
import { isJsonObject } from '../core/json.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'
import { didYouMean } from './suggest.ts'

type Raw = Readonly<Record<string, unknown>>

/** Part of a document that one gateway reads. */
interface OwnDocument {
  readonly document: unknown
  readonly findings: readonly Finding[]
  /** Path in the whole document of a path in the part. */
  readonly pathOf: (path: Path) => Path
}

/** Name of the variable with the cluster that a gateway serves. Absent: it is the edge. */
export const REGION_VARIABLE = 'FIRSTLIGHT_REGION'

/** Keys of the document that regions have as written. Others belong to the edge. */
const COMMON = ['version', 'admin', 'bridge', 'limits', 'log', 'ttft', 'metrics', 'alerts', 'traces']

/** Keys of a pool that the edge needs, too. */
const EDGE_KEYS = ['model', 'aliases', 'response_model', 'block_tokens', 'tokenizer', 'session', 'observe_share']

const same = (path: Path): Path => path

const isRegion = (cluster: unknown): cluster is Raw =>
  isJsonObject(cluster) && Array.isArray(cluster['pools']) && isJsonObject(cluster['gateway'])

const clustersOf = (document: unknown): readonly unknown[] =>
  isJsonObject(document) && Array.isArray(document['clusters']) ? document['clusters'] : []

/** Ids of the regions that a document describes with their pools. */
export const regionsIn = (document: unknown): readonly string[] =>
  clustersOf(document)
    .filter(isRegion)
    .flatMap(({ id }) => (typeof id === 'string' ? id : []))

/** @param region cluster that the gateway serves; null: it is the edge, or the document is for one gateway alone */
export function ownDocument(document: unknown, region: string | null): OwnDocument {
  const clusters = clustersOf(document)
  if (region === null && !clusters.some(isRegion)) return { document, findings: [], pathOf: same }
  const whole = document as Raw
  const findings = clusters.flatMap(findingsOf)
  if (region === null) return { document: edgeOf(whole, clusters), findings, pathOf: edgePath(clusters) }
  const at = clusters.findIndex((cluster) => isRegion(cluster) && cluster['id'] === region)
  if (at !== -1) return { document: regionOf(whole, clusters[at] as Raw), findings, pathOf: regionPath(clusters, at) }
  const known = regionsIn(document)
  const rule = `has no cluster "${region}" with \`pools\` and a \`gateway\`, which ${REGION_VARIABLE} names`
  return { document, findings: [{ path: ['clusters'], rule: rule + didYouMean(region, known) }], pathOf: same }
}

function findingsOf(cluster: unknown, at: number): readonly Finding[] {
  if (!isRegion(cluster)) return []
  const gateway = cluster['gateway'] as Raw
  const path: Path = ['clusters', at]
  return [
    ...(gateway['key'] === undefined
      ? [
          {
            path: [...path, 'gateway', 'key'],
            rule: 'is required beside `pools`: the region accepts it as the key of the edge',
          },
        ]
      : []),
    ...(gateway['models'] === undefined
      ? []
      : [{ path: [...path, 'gateway', 'models'], rule: 'contradicts `pools`, which name the models: leave it out' }]),
    ...(cluster['settings'] === undefined || isJsonObject(cluster['settings'])
      ? []
      : [{ path: [...path, 'settings'], rule: 'must be an object with keys of the document' }]),
  ]
}

function edgeOf(document: Raw, clusters: readonly unknown[]): Raw {
  return {
    ...document,
    clusters: clusters.map((cluster) => (isRegion(cluster) ? edgeCluster(document, cluster) : cluster)),
  }
}

function edgeCluster(document: Raw, { pools, settings, gateway, ...cluster }: Raw): Raw {
  const admin = isJsonObject(settings) && 'admin' in settings ? settings['admin'] : document['admin']
  const adminKey = isJsonObject(admin) && admin['secret'] !== undefined ? { admin_key: admin['secret'] } : {}
  return {
    ...cluster,
    gateway: { ...adminKey, ...(gateway as Raw), models: (pools as readonly unknown[]).map(edgeModel) },
  }
}

/** A malformed pool is left as it is: the validation names it. */
function edgeModel(pool: unknown): unknown {
  if (!isJsonObject(pool)) return pool
  const adapters = adaptersOf(pool['adapters'])
  const kept = EDGE_KEYS.filter((key) => pool[key] !== undefined).map((key) => [key, pool[key]])
  return { ...Object.fromEntries(kept), ...(adapters === undefined ? {} : { adapters }) }
}

/** Names of the adapters: how engines load them is the region's part. */
function adaptersOf(adapters: unknown): unknown {
  // An edge reads no lists of engines.
  if (adapters === 'auto') return undefined
  const names = isJsonObject(adapters) ? adapters['names'] : adapters
  return Array.isArray(names) ? names.map((one: unknown) => (isJsonObject(one) ? one['name'] : one)) : names
}

function regionOf(document: Raw, { gateway, settings = {}, ...cluster }: Raw): Raw {
  const { keys: ownKeys, ...own } = settings as Raw
  const key = { name: 'edge', secret: (gateway as Raw)['key'], edge: true, allow_overrides: true }
  const common = COMMON.filter((name) => document[name] !== undefined).map((name) => [name, document[name]])
  return {
    ...Object.fromEntries(common),
    ...own,
    keys: [key, ...(Array.isArray(ownKeys) ? ownKeys : [])],
    clusters: [cluster],
  }
}

/** The pools of a region are the models of its gateway at the edge. */
const edgePath =
  (clusters: readonly unknown[]) =>
  (path: Path): Path => {
    const [list, at, part, models, ...rest] = path
    const isModel = list === 'clusters' && part === 'gateway' && models === 'models' && isRegion(clusters[Number(at)])
    return isModel ? ['clusters', at!, 'pools', ...rest] : path
  }

const regionPath =
  (clusters: readonly unknown[], at: number) =>
  (path: Path): Path => {
    const [name, entry, ...rest] = path
    const cluster: Path = ['clusters', at]
    if (name === 'clusters') return [...cluster, ...rest]
    if (name === 'keys' && entry === 0) return [...cluster, 'gateway', 'key']
    if (name === 'keys' && typeof entry === 'number') return [...cluster, 'settings', 'keys', entry - 1, ...rest]
    const { settings } = clusters[at] as Raw
    return isJsonObject(settings) && String(name) in settings ? [...cluster, 'settings', ...path] : path
  }
