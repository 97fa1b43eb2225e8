/**
 * Encoder of the Prometheus text format, version 0.0.4, and of OpenMetrics 1.0.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 * https://prometheus.io/docs/specs/om/open_metrics_spec/
 */
import type { EngineDigest, PoolDigest } from '../core/contract/pool-digest.ts'
import type { RegionStatus } from '../core/contract/region-status.ts'
import type { CountedGroup } from '../core/reports/rollups.ts'
import type {
  CountMetric,
  DecisionMetric,
  DurationMetric,
  EngineMetric,
  GatewayFacts,
  Metric,
  StateMetric,
} from './metric.ts'
import { type Exemplar, type ExemplarsBySeries, seriesName } from './exemplars.ts'
import { BUCKETS_S, METRICS, NAMED_STAGES } from './metrics.ts'

export interface RegionSample {
  readonly cluster: string
  readonly model: string
  readonly status: RegionStatus
}

export interface MetricsInput {
  /** Digests of the pools that answered. */
  readonly digests: readonly PoolDigest[]
  /** States of regions. Absent: none. */
  readonly regions?: readonly RegionSample[]
  /** Merged rollups, one group per engine, with buckets up to `LIMITS_MS`. */
  readonly rollups: readonly CountedGroup[]
  readonly gateway: GatewayFacts
  /** Exemplars of an OpenMetrics text. Absent: the text has the Prometheus format, which has none. */
  readonly exemplars?: ExemplarsBySeries
}

export type TextFormat = 'prometheus' | 'openmetrics'

/** Content types. */
export const TEXT_TYPES: Readonly<Record<TextFormat, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

type Labels = Readonly<Record<string, string>>

/** Enough that parts are few; written in well under a millisecond each. */
const PART_LENGTH = 65_536

/** Returns all metrics with a sample. */
export function exposition(input: MetricsInput): string {
  return [...expositionParts(input)].join('')
}

/** Yields the text in parts. Its inputs must not change until the last one. */
export function* expositionParts(exposed: MetricsInput): Generator<string> {
  const isOpenMetrics = exposed.exemplars !== undefined
  let part = ''
  for (const metric of METRICS) {
    const { type, help } = metric
    // OpenMetrics names a counter without the suffix of its samples.
    const name = isOpenMetrics && type === 'counter' ? metric.name.slice(0, -'_total'.length) : metric.name
    let head = `# HELP ${name} ${isOpenMetrics ? escapeLabel(help) : escapeHelp(help)}\n# TYPE ${name} ${type}\n`
    for (const samples of samplesOf(metric, exposed)) {
      if (samples === '') continue
      part += head + samples
      head = ''
      if (part.length < PART_LENGTH) continue
      yield part
      part = ''
    }
  }
  yield isOpenMetrics ? `${part}# EOF\n` : part
}

/** `labels`: with their braces; '': none. */
const line = (name: string, labels: string, value: number): string => `${name}${labels} ${value}\n`

/** Lines of one engine or pool; '': none. */
function* samplesOf(
  metric: Metric,
  { digests, rollups, gateway, regions = [], exemplars }: MetricsInput,
): Generator<string> {
  switch (metric.from) {
    case 'gateway':
      yield lineOf(metric.name, '', metric.value(gateway))
      return
    case 'gateway_counts':
      for (const [name, count] of Object.entries(metric.counts(gateway) ?? {}))
        yield line(metric.name, labelled({ [metric.label]: name }), count)
      return
    case 'target':
      for (const [name, targets] of Object.entries(gateway.own?.[metric.of] ?? {}))
        for (const [target, counts] of Object.entries(targets))
          yield line(metric.name, labelled({ name, target }), metric.value(counts))
      return
    case 'region':
      for (const { cluster, model, status: seen } of regions)
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
    case 'capacity':
      for (const { pool: model, cluster, capacity = [] } of digests)
        for (const one of capacity)
          yield lineOf(metric.name, labelled({ model, cluster, role: one.role }), metric.value(one))
      return
    case 'count':
      for (const group of rollups) yield linesOfCounts(metric, group)
      return
    case 'duration':
      for (const group of rollups) yield linesOfDurations(metric, group, exemplars)
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
  { cluster, pool, decisions = [] }: PoolDigest,
): string {
  const sums = new Map<string, number>()
  for (const decision of decisions) {
    if (!counts(decision)) continue
    const labelText = labelled({
      model: pool,
      cluster,
      ...Object.fromEntries(labels.map((label) => [label === 'refused' ? 'reason' : label, String(decision[label])])),
    })
    sums.set(labelText, (sums.get(labelText) ?? 0) + sum(decision))
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

/** OpenMetrics requires a decimal point. */
const FLOAT_LE = LE.map((le) => le.replace(/"(\d+)"/, '"$1.0"'))

/** Lines of the buckets, most of the text: their common part is built once. */
function linesOfDurations(
  { name, stage }: DurationMetric,
  { model, cluster, engine, stages, rows }: CountedGroup,
  exemplars: ExemplarsBySeries | undefined,
): string {
  let lines = ''
  const limits = exemplars === undefined ? LE : FLOAT_LE
  for (const [at, timed] of stages.entries()) {
    if (stage === null ? NAMED_STAGES.has(timed) : timed !== stage) continue
    const labelText = labelled(
      stage === null ? { model, cluster, engine, stage: timed } : { gen_ai_request_model: model, cluster, engine },
    )
    const bucket = `${name}_bucket${labelText.slice(0, -1)}`
    const row = at * (LE.length + 1)
    const buckets = exemplars?.[seriesName(timed, { model, cluster, engine })]
    for (const [index, le] of limits.entries()) {
      const exemplar = buckets?.[index] ?? null
      const counted = line(bucket, le, rows[row + index]!)
      lines += exemplar === null ? counted : withExemplar(counted, exemplar)
    }
    lines +=
      line(`${name}_sum`, labelText, rows[row + LE.length]! / 1000) +
      line(`${name}_count`, labelText, rows[row + LE.length - 1]!)
  }
  return lines
}

const withExemplar = (counted: string, { traceId, spanId, ms, at }: Exemplar): string =>
  `${counted.trimEnd()} # {trace_id="${traceId}",span_id="${spanId}"} ${ms / 1000} ${at / 1000}\n`

const labelled = (labels: Labels): string =>
  `{${Object.entries(labels)
    .map(([name, value]) => `${name}="${escapeLabel(value)}"`)
    .join(',')}}`

const escapeLabel = (value: string): string =>
  value.replaceAll(/[\\"\n]/g, (one) => (one === '\n' ? '\\n' : `\\${one}`))

const escapeHelp = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
