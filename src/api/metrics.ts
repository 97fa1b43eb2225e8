/** `/metrics`: metrics of the cluster objects and the reports in Prometheus format, on both runtimes. */
import { countedUpTo, type CountedGroup, groupName, Rollups } from '../core/reports/rollups.ts'
import { sumCounts } from '../origin/lmcache/client.ts'
import type { Ports, Ttft } from '../ports.ts'
import {
  type OwnCounts,
  BUCKETS_S,
  METRICS,
  NAMED_STAGES,
  type CountMetric,
  type DecisionMetric,
  type DurationMetric,
  type EngineMetric,
  type GatewayFacts,
  type Metric,
  type StateMetric,
} from '../telemetry/metrics.ts'
import type { GatewayContext } from './context.ts'
import { type GatewayCounts, aggregateCounts } from './worker-group.ts'
import type { RequestContext } from './request-context.ts'
import { keyOrAdmin } from './auth.ts'
import { digestsOf, regionsOf } from './fleet-view.ts'
import type { ClusterDigest, EngineDigest } from '../core/contract/contract.ts'
import type { RegionStatus } from '../origin/regions/client.ts'

/** Handles `GET /metrics`. Needs `metrics.key` or the admin key, or no key on a loopback listener. */
export function metricsHandler(context: GatewayContext): (incoming: RequestContext) => Promise<Response> {
  const admit = keyOrAdmin(context.authenticator, context.config.metrics.key, 'metrics.key')
  return async (incoming) => {
    await admit(incoming.request.headers)
    return new Response(textOf(await collect(context), context.ports.yieldToEventLoop), {
      headers: { 'content-type': EXPOSITION_TYPE, 'cache-control': 'no-store', 'x-request-id': incoming.requestId },
    })
  }
}

/** The text in parts, which are sent as the client reads them: the text of 200 engines may have ten megabytes. */
function textOf(all: Exposed, turn: Ports['yieldToEventLoop']): string | ReadableStream<Uint8Array> {
  if (turn === undefined) return exposition(all)
  const parts = expositionParts(all)
  const utf8 = new TextEncoder()
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    await turn()
    const part = parts.next()
    if (part.done === true) controller.close()
    else controller.enqueue(utf8.encode(part.value))
  }
  return new ReadableStream({ pull }, { highWaterMark: 0 })
}

async function collect(context: GatewayContext): Promise<Exposed> {
  const digests = await digestsOf(context)
  const answered = digests.filter((digest) => digest !== null)
  const engines = answered.flatMap((digest) => digest.engines)
  // Called first, because it adds ended requests to the rollups.
  const counted = await aggregateCounts(context)
  return {
    digests: answered,
    regions: await regionsExposed(context),
    rollups: await rollupsOf(context),
    gateway: {
      draining: context.draining,
      silentEngines: engines.filter(({ learned }) => learned !== undefined && learned.silentMiss !== null).length,
      unreachablePools: digests.length - answered.length,
      own: {
        ...counted,
        bufferedBytes: context.bodyMemory.bytes,
        lookups: totalsOf(counted.lookups),
        replicas: answered[0]?.replicas,
        replicasUp: answered[0]?.replicasUp,
      },
    },
  }
}

async function regionsExposed(context: GatewayContext): Promise<RegionExposed[]> {
  const regions = await regionsOf(context, true)
  return context.catalog.routes.flatMap(({ cluster, pool }, at) =>
    regions[at] ? [{ cluster: cluster.id, model: pool.model, seen: regions[at] }] : [],
  )
}

/** Sums over all pools. */
function totalsOf(pools: GatewayCounts['lookups']): OwnCounts['lookups'] {
  const sums = { made: 0, late: 0, failed: 0 }
  const told = pools.filter((counts) => counts !== null)
  for (const { found = 0, empty = 0, late = 0, failed = 0 } of told) {
    sums.made += found + empty + late + failed
    sums.late += late
    sums.failed += failed
  }
  return { ...sums, skipped: sumCounts(told.map(({ skipped }) => skipped)) }
}

/** Engine names, current and former, up to which all are shown. */
const MANY_NAMES = 1_000
const SILENT_MS = 86_400_000

/** Rollups of all shards, one group per engine. */
async function rollupsOf({ ports }: GatewayContext): Promise<readonly CountedGroup[]> {
  if (ports.ttft === undefined) return []
  try {
    const groups = await (ports.ttft.counted === undefined ? merged(ports.ttft) : ports.ttft.counted(LIMITS_MS))
    if (groups.length <= MANY_NAMES) return groups
    const shownSince = ports.now() - SILENT_MS
    // Groups disappear from the output before they are dropped; a sum would fall if shards dropped a group at different
    // times.
    const forgottenBefore = shownSince - SILENT_MS
    const silent = groups.filter(({ at }) => at! < forgottenBefore).map(groupName)
    if (silent.length > 0) await ports.ttft.forget(silent, forgottenBefore)
    return groups.filter(({ at }) => at! >= shownSince)
  } catch (error) {
    ports.log.warn('rollups_failed', { error })
    return []
  }
}

async function merged(ttft: Ttft): Promise<readonly CountedGroup[]> {
  const all = new Rollups()
  for (const group of await ttft.rollups()) all.merge(group)
  return all.groups().map((group) => countedUpTo(group, LIMITS_MS))
}

/*
 * Encoder of the Prometheus text format, version 0.0.4. https://prometheus.io/docs/instrumenting/exposition_formats/
 */

interface RegionExposed {
  readonly cluster: string
  readonly model: string
  readonly seen: RegionStatus
}

interface Exposed {
  /** Digests of the pools that answered. */
  readonly digests: readonly ClusterDigest[]
  /** States of regions. Absent: none. */
  readonly regions?: readonly RegionExposed[]
  /** Merged rollups, one group per engine, with buckets up to `LIMITS_MS`. */
  readonly rollups: readonly CountedGroup[]
  readonly gateway: GatewayFacts
}

const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

type Labels = Readonly<Record<string, string>>

/** Enough that parts are few; written in well under a millisecond each. */
const PART_LENGTH = 65_536

/** Returns all metrics with a sample. */
export function exposition(exposed: Exposed): string {
  return [...expositionParts(exposed)].join('')
}

/** Yields the text in parts. Its inputs must not change until the last one. */
function* expositionParts(exposed: Exposed): Generator<string> {
  let part = ''
  for (const metric of METRICS) {
    const { name, type, help } = metric
    let head = `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n`
    for (const samples of samplesOf(metric, exposed)) {
      if (samples === '') continue
      part += head + samples
      head = ''
      if (part.length < PART_LENGTH) continue
      yield part
      part = ''
    }
  }
  yield part
}

/** `labels`: with their braces; '': none. */
const line = (name: string, labels: string, value: number): string => `${name}${labels} ${value}\n`

/** Lines of one engine or pool; '': none. */
function* samplesOf(metric: Metric, { digests, rollups, gateway, regions = [] }: Exposed): Generator<string> {
  switch (metric.from) {
    case 'gateway':
      yield lineOf(metric.name, '', metric.value(gateway))
      return
    case 'gateway_counts':
      for (const [name, count] of Object.entries(metric.counts(gateway) ?? {}))
        yield line(metric.name, labelled({ [metric.label]: name }), count)
      return
    case 'region':
      for (const { cluster, model, seen } of regions)
        yield lineOf(metric.name, labelled({ model, cluster }), metric.value(seen))
      return
    case 'engine':
    case 'state':
      for (const { cluster, pool, engines } of digests) {
        for (const engine of engines) yield linesOfEngine(metric, { model: pool, cluster, engine: engine.id }, engine)
      }
      return
    case 'decision':
      for (const digest of digests) yield linesOfDecisions(metric, digest)
      return
    case 'pool':
      for (const digest of digests) {
        const labels = labelled({ model: digest.pool, cluster: digest.cluster })
        yield lineOf(metric.name, labels, metric.value(digest))
      }
      return
    case 'count':
      for (const group of rollups) yield linesOfCounts(metric, group)
      return
    case 'duration':
      for (const group of rollups) yield linesOfDurations(metric, group)
  }
}

/** Formats a value; '': unknown. */
const lineOf = (name: string, labels: string, value: number | null | undefined): string =>
  value === null || value === undefined ? '' : line(name, labels, value)

function linesOfEngine(metric: EngineMetric | StateMetric, labels: Labels, engine: EngineDigest): string {
  if (metric.from === 'engine') {
    return lineOf(metric.name, labelled(labels), metric.value(engine))
  }
  const now = metric.value(engine)
  return metric.states
    .map((state) => line(metric.name, labelled({ ...labels, [metric.label]: state }), state === now ? 1 : 0))
    .join('')
}

function linesOfDecisions(
  { name, labels, counts, sum = ({ count }) => count }: DecisionMetric,
  { cluster, pool, decisions = [] }: ClusterDigest,
): string {
  const sums = new Map<string, number>()
  for (const decision of decisions) {
    if (!counts(decision)) continue
    const of = labelled({
      model: pool,
      cluster,
      ...Object.fromEntries(labels.map((label) => [label === 'refused' ? 'reason' : label, String(decision[label])])),
    })
    sums.set(of, (sums.get(of) ?? 0) + sum(decision))
  }
  return [...sums].map(([of, count]) => line(name, of, count)).join('')
}

function linesOfCounts({ name, count, label }: CountMetric, { model, cluster, engine, counts }: CountedGroup): string {
  let lines = ''
  for (const [counted, amount] of Object.entries(counts)) {
    if (label === undefined) {
      if (counted === count) lines += line(name, labelled({ model, cluster, engine }), amount)
    } else if (counted.startsWith(`${count}:`))
      lines += line(name, labelled({ model, cluster, engine, [label]: counted.slice(count.length + 1) }), amount)
  }
  return lines
}

/** Bucket limits. */
export const LIMITS_MS = [...BUCKETS_S.map((limitS) => limitS * 1000), Infinity]
const LE = [...BUCKETS_S, '+Inf'].map((limit) => `,le="${limit}"}`)

/** Lines of the buckets, most of the text: their common part is built once. */
function linesOfDurations(
  { name, stage }: DurationMetric,
  { model, cluster, engine, stages, rows }: CountedGroup,
): string {
  let lines = ''
  for (const [at, timed] of stages.entries()) {
    if (stage === null ? NAMED_STAGES.has(timed) : timed !== stage) continue
    const own = labelled(
      stage === null ? { model, cluster, engine, stage: timed } : { gen_ai_request_model: model, cluster, engine },
    )
    const bucket = `${name}_bucket${own.slice(0, -1)}`
    const row = at * (LE.length + 1)
    for (const [index, le] of LE.entries()) lines += line(bucket, le, rows[row + index]!)
    lines +=
      line(`${name}_sum`, own, rows[row + LE.length]! / 1000) + line(`${name}_count`, own, rows[row + LE.length - 1]!)
  }
  return lines
}

const labelled = (labels: Labels): string =>
  `{${Object.entries(labels)
    .map(([name, value]) => `${name}="${escapeLabel(value)}"`)
    .join(',')}}`

const escapeLabel = (value: string): string =>
  value.replaceAll(/[\\"\n]/g, (one) => (one === '\n' ? '\\n' : `\\${one}`))
const escapeHelp = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
