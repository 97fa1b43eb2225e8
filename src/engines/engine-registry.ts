/** The engine types by name, and what follows from all of them. README.md lists what a new type needs. */
import type { RankStats } from '../core/contract/engine-signal.ts'
import type { EngineTypeName, EngineType } from './engine-type.ts'
import { external } from './external.ts'
import { firstlight } from './firstlight.ts'
import { llamaCpp } from './llama-cpp.ts'
import { metricNames, readLoad, readRanks, type ReportedLoad } from './load-metrics.ts'
import { ollama } from './ollama.ts'
import { namesPattern, samplesOf } from './prometheus-text.ts'
import { sglang } from './sglang.ts'
import { tensorrtLlm } from './tensorrt-llm.ts'
import { tgi } from './tgi.ts'
import { unknown } from './unknown.ts'
import { vllm } from './vllm.ts'

/** By name, in the order in which they are tried. */
const TYPES: Readonly<Record<EngineTypeName, EngineType>> = {
  vllm,
  sglang,
  'tensorrt-llm': tensorrtLlm,
  'llama.cpp': llamaCpp,
  tgi,
  ollama,
  firstlight,
  external,
  unknown,
}

export const ENGINE_TYPES: readonly EngineType[] = Object.values(TYPES)

export const engineTypeOf = (name: EngineTypeName): EngineType => TYPES[name]

/** Headers that clients must not set, of all types, because the type may not be known yet. */
export const PRIVATE_HEADERS: ReadonlySet<string> = new Set(ENGINE_TYPES.flatMap((type) => type.privateHeaders))

/** Fields that are removed from a client's body, of all types. `vllm_xargs` holds them again. */
export const REMOVED_FIELDS: readonly string[] = [
  ...new Set(ENGINE_TYPES.flatMap((type) => type.removedFields).filter((name) => !name.includes('.'))),
]

/** Fields that clients must not set, of all types. */
export const DENIED_FIELDS: readonly string[] = [...new Set(ENGINE_TYPES.flatMap((type) => type.deniedFields))]

/** Paths of metrics, in the order in which they are read: the first answers for nearly all engines. */
export const METRICS_PATHS: readonly string[] = [...new Set(ENGINE_TYPES.flatMap(({ load }) => load?.paths ?? []))]

/** Routes that show a type. */
export const DETECTION_PATHS: readonly string[] = ENGINE_TYPES.flatMap(({ detection }) =>
  detection.routes.map(({ path }) => path),
)

const LOADS = ENGINE_TYPES.flatMap((type) => (type.load === null ? [] : [{ type, metrics: type.load.metrics }]))
const READ = namesPattern(LOADS.flatMap(({ metrics }) => metricNames(metrics)))

export interface MeasuredLoad extends ReportedLoad {
  readonly type: EngineType
}

/** Reads the load of each data-parallel rank. Empty: the text names no ranks. */
export function readRankMetrics(text: string): readonly RankStats[] {
  const samples = samplesOf(text, READ)
  for (const { metrics } of LOADS) {
    const ranks = readRanks(metrics, samples)
    if (ranks.length > 0) return ranks
  }
  return []
}

/**
 * Reads the load from an engine's metrics and recognises its type. null: the text has no queue gauge, so it is not from
 * an engine.
 * @param rank only this data-parallel rank; null: all ranks as one engine
 */
export function readMetrics(text: string, rank: string | null = null): MeasuredLoad | null {
  const samples = samplesOf(text, READ)
  for (const { type, metrics } of LOADS) {
    const load = readLoad(metrics, samples, rank)
    if (load !== null) return { ...load, type }
  }
  return null
}

/** What is known about a server. Every part may be missing. @testing */
export interface EngineEvidence {
  /** Type in the configuration: it wins. */
  readonly configured?: EngineTypeName | null
  /** Body of the metrics route. */
  readonly metrics?: string | null
  /** `owned_by` of the models in `/v1/models`. */
  readonly owners?: readonly string[]
  /** `server` header of any answer. */
  readonly server?: string | null
  /** Bodies of routes that answered 200, by path. */
  readonly routes?: Readonly<Record<string, string>>
}

/** Determines the type: configured, else by the strongest sign. A server that only has `/version` counts as vLLM. */
export function detectEngineType(evidence: EngineEvidence): EngineType {
  const { configured = null, metrics = null, owners = [], server = null, routes = {} } = evidence
  if (configured !== null) return engineTypeOf(configured)
  const signs: readonly ((type: EngineType) => boolean)[] = [
    ({ detection }) => metrics !== null && hasPrefix(metrics, detection.metrics),
    ({ detection }) => owners.some((owner) => detection.owners.includes(owner)),
    ({ detection }) => server !== null && detection.server?.test(server) === true,
    ({ detection }) => detection.routes.some(({ path, body }) => body.test(routes[path] ?? '')),
  ]
  for (const sign of signs) {
    const found = ENGINE_TYPES.find(sign)
    if (found !== undefined) return found
  }
  return vllm.version!.pattern.test(routes[vllm.version!.path] ?? '') ? vllm : unknown
}

/** True if a sample, not a comment, begins with one of the prefixes. */
function hasPrefix(metrics: string, prefixes: readonly string[]): boolean {
  return prefixes.some((prefix) => metrics.startsWith(prefix) || metrics.includes(`\n${prefix}`))
}
