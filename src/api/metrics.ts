/** `/metrics` in Prometheus format, on both runtimes. */
import { type CountedGroup, countedUpTo, groupName, Rollups } from '../core/reports/rollups.ts'
import { sumCounts } from './sum-counts.ts'
import type { Config } from '../config.ts'
import type { Ports } from '../ports.ts'
import type { Ttft } from '../ports/ttft.ts'
import type { OwnCounts } from '../telemetry/metric.ts'
import {
  exposition,
  expositionParts,
  LIMITS_MS,
  type MetricsInput,
  type RegionSample,
  TEXT_TYPES,
  type TextFormat,
} from '../telemetry/prometheus-text.ts'
import type { BodyMemory } from '../body-memory.ts'
import type { GatewayStatus } from './gateway-status.ts'
import { digestsOf, type FleetParts, regionsOf } from './fleet-digests.ts'
import type { RequestContext } from './request-context.ts'
import type { GatewayCounts } from './worker-group.ts'
import { aggregateCounts, collectExemplars, type CountParts } from './group-queries.ts'

export interface MetricsParts extends FleetParts, CountParts {
  readonly ports: FleetParts['ports'] & Pick<Ports, 'ttft' | 'now'>
  readonly config: Pick<Config, 'discovered'>
  readonly status: Pick<GatewayStatus, 'draining'>
  readonly bodyMemory: Pick<BodyMemory, 'bytes'>
}

/** Answers `GET /metrics`. */
export async function metrics(parts: MetricsParts, incoming: RequestContext): Promise<Response> {
  const format = formatOf(incoming.request.headers.get('accept') ?? '')
  return new Response(textOf(await collect(parts, format), parts.ports.yieldToEventLoop), {
    headers: { 'content-type': TEXT_TYPES[format], 'cache-control': 'no-store', 'x-request-id': incoming.requestId },
  })
}

/** OpenMetrics if the scraper prefers it to the Prometheus format. */
function formatOf(accept: string): TextFormat {
  const qualityOf = (type: string): number =>
    Math.max(
      0,
      ...accept
        .toLowerCase()
        .split(',')
        .map((range) => range.trim())
        .filter((range) => range.split(';')[0]!.trim() === type)
        .map((range) => Number(/;\s*q=([\d.]+)/.exec(range)?.[1] ?? 1)),
    )
  const quality = qualityOf('application/openmetrics-text')
  return quality > 0 && quality >= qualityOf('text/plain') ? 'openmetrics' : 'prometheus'
}

/** All metrics with a sample. */
export const metricsText = async (parts: MetricsParts, format: TextFormat): Promise<string> =>
  exposition(await collect(parts, format))

/** The text in parts, which are sent as the client reads them: the text of 200 engines may have ten megabytes. */
function textOf(all: MetricsInput, yieldToEventLoop: Ports['yieldToEventLoop']): string | ReadableStream<Uint8Array> {
  if (yieldToEventLoop === undefined) return exposition(all)
  const parts = expositionParts(all)
  const utf8 = new TextEncoder()
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    await yieldToEventLoop()
    const part = parts.next()
    if (part.done === true) controller.close()
    else controller.enqueue(utf8.encode(part.value))
  }
  return new ReadableStream({ pull }, { highWaterMark: 0 })
}

async function collect(parts: MetricsParts, format: TextFormat): Promise<MetricsInput> {
  const digests = await digestsOf(parts)
  const answered = digests.filter((digest) => digest !== null)
  const engines = answered.flatMap((digest) => digest.engines)
  // Called first, because it adds ended requests to the rollups.
  const counts = await aggregateCounts(parts)
  return {
    digests: answered,
    regions: await regionSamples(parts),
    rollups: await rollupsOf(parts),
    ...(format === 'openmetrics' ? { exemplars: await collectExemplars(parts) } : {}),
    gateway: {
      draining: parts.status.draining,
      malformedResources: parts.config.discovered?.malformed,
      silentEngines: engines.filter(({ learned }) => learned !== undefined && learned.silentMiss !== null).length,
      unreachablePools: digests.length - answered.length,
      own: {
        ...counts,
        bufferedBytes: parts.bodyMemory.bytes,
        lookups: totalsOf(counts.lookups),
        replicas: answered[0]?.replicas,
        replicasUp: answered[0]?.replicasUp,
      },
    },
  }
}

async function regionSamples(parts: MetricsParts): Promise<RegionSample[]> {
  const regions = await regionsOf(parts, true)
  return parts.models.routes.flatMap(({ cluster, pool }, at) =>
    regions[at] ? [{ cluster: cluster.id, model: pool.model, status: regions[at] }] : [],
  )
}

/** Sums over all pools. */
function totalsOf(pools: GatewayCounts['lookups']): OwnCounts['lookups'] {
  const sums = { made: 0, late: 0, failed: 0 }
  const known = pools.filter((counts) => counts !== null)
  for (const { found = 0, empty = 0, late = 0, failed = 0 } of known) {
    sums.made += found + empty + late + failed
    sums.late += late
    sums.failed += failed
  }
  return { ...sums, skipped: sumCounts(known.map(({ skipped }) => skipped)) }
}

/** Engine names, current and former, up to which all are shown. */
const MANY_NAMES = 1_000

const SILENT_MS = 86_400_000

/** Rollups of all shards, one group per engine. */
async function rollupsOf({ ports }: Pick<MetricsParts, 'ports'>): Promise<readonly CountedGroup[]> {
  if (ports.ttft === undefined) return []
  try {
    const groups = await (ports.ttft.counted === undefined ? mergeRollups(ports.ttft) : ports.ttft.counted(LIMITS_MS))
    if (groups.length <= MANY_NAMES) return groups
    const visibleSince = ports.now() - SILENT_MS
    // Groups disappear from the output before they are dropped; a sum would fall if shards dropped a group at different
    // times.
    const forgottenBefore = visibleSince - SILENT_MS
    const silent = groups.filter(({ at }) => at! < forgottenBefore).map(groupName)
    if (silent.length > 0) await ports.ttft.forget(silent, forgottenBefore)
    return groups.filter(({ at }) => at! >= visibleSince)
  } catch (error) {
    ports.log.warn('rollups_failed', { error })
    return []
  }
}

async function mergeRollups(ttft: Ttft): Promise<readonly CountedGroup[]> {
  const all = new Rollups()
  for (const group of await ttft.rollups()) all.merge(group)
  return all.groups().map((group) => countedUpTo(group, LIMITS_MS))
}
