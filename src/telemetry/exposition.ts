/** The Prometheus text format, version 0.0.4. https://prometheus.io/docs/instrumenting/exposition_formats/ */
import type { ClusterDigest } from '../core/cluster/contract.ts'
import type { RollupGroup } from '../core/reports/rollups.ts'
import { countsUpTo } from '../core/reports/sketch.ts'
import { BUCKETS_S, METRICS, NAMED_STAGES, type CountMetric, type DecisionMetric, type DurationMetric, type GatewayFacts, type Metric } from './metrics.ts'

export interface Exposed {
  /** Of every pool that answered. */
  readonly digests: readonly ClusterDigest[]
  /** Merged: one group an engine. */
  readonly rollups: readonly RollupGroup[]
  readonly gateway: GatewayFacts
}

export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

type Labels = Readonly<Record<string, string>>

/** Every metric of the table that has a sample. */
export function exposition(exposed: Exposed): string {
  const lines: string[] = []
  for (const metric of METRICS) {
    let isNamed = false
    write(metric, exposed, (suffix, labels, value) => {
      if (!isNamed) {
        if (metric.help !== true) lines.push(`# HELP ${metric.name} ${escapeHelp(metric.help)}`)
        lines.push(`# TYPE ${metric.name} ${metric.type}`)
        isNamed = true
      }
      lines.push(`${metric.name}${suffix}${labels} ${value}`)
    })
  }
  return `${lines.join('\n')}\n`
}

/** `labels`: with their braces; '': none. */
type Put = (suffix: string, labels: string, value: number) => void

function write(metric: Metric, { digests, rollups, gateway }: Exposed, put: Put): void {
  switch (metric.from) {
    case 'gateway': {
      const value = metric.value(gateway)
      return value === undefined ? undefined : put('', '', value)
    }
    case 'gateway_counts':
      for (const [name, count] of Object.entries(metric.counts(gateway) ?? {})) put('', labelled({ [metric.label]: name }), count)
      return
    case 'engine':
    case 'state':
      for (const digest of digests) writeEngines(metric, digest, put)
      return
    case 'decision':
      for (const digest of digests) writeDecisions(metric, digest, put)
      return
    case 'count':
      for (const group of rollups) writeCounts(metric, group, put)
      return
    case 'duration':
      for (const group of rollups) writeDurations(metric, group, put)
  }
}

function writeEngines(metric: Extract<Metric, { from: 'engine' | 'state' }>, { cluster, pool, engines }: ClusterDigest, put: Put): void {
  for (const engine of engines) {
    const labels = { model: pool, cluster, engine: engine.id }
    if (metric.from === 'state') {
      const now = metric.value(engine)
      for (const state of metric.states) put('', labelled({ ...labels, [metric.label]: state }), state === now ? 1 : 0)
      continue
    }
    const value = metric.value(engine)
    if (value !== null && value !== undefined) put('', labelled(labels), value)
  }
}

function writeDecisions({ labels, counts, sum = ({ count }) => count }: DecisionMetric, { cluster, pool, decisions = [] }: ClusterDigest, put: Put): void {
  const sums = new Map<string, { readonly labels: Labels; count: number }>()
  for (const decision of decisions) {
    if (!counts(decision)) continue
    const of = Object.fromEntries(labels.map((label) => [label === 'refused' ? 'reason' : label, String(decision[label])]))
    const key = JSON.stringify(of)
    const known = sums.get(key)
    if (known === undefined) sums.set(key, { labels: { model: pool, cluster, ...of }, count: sum(decision) })
    else known.count += sum(decision)
  }
  for (const { labels: found, count } of sums.values()) put('', labelled(found), count)
}

function writeCounts({ count, label }: CountMetric, group: RollupGroup, put: Put): void {
  const { model, cluster, engine, counts } = group
  for (const [name, amount] of Object.entries(counts)) {
    if (label === undefined) {
      if (name === count) put('', labelled({ model, cluster, engine }), amount)
    } else if (name.startsWith(`${count}:`)) put('', labelled({ model, cluster, engine, [label]: name.slice(count.length + 1) }), amount)
  }
}

const LIMITS_MS = [...BUCKETS_S.map((limitS) => limitS * 1000), Infinity]
const LE = [...BUCKETS_S, '+Inf'].map((limit) => `,le="${limit}"}`)

/** Most of the text by far: what all buckets of a series have in common is put together once. */
function writeDurations({ stage }: DurationMetric, { model, cluster, engine, sketches }: RollupGroup, put: Put): void {
  for (const [name, data] of Object.entries(sketches)) {
    if (stage === null ? NAMED_STAGES.has(name) : name !== stage) continue
    const own = labelled(stage === null ? { model, cluster, engine, stage: name } : { gen_ai_request_model: model, cluster, engine })
    const open = own.slice(0, -1)
    const counts = countsUpTo(data, LIMITS_MS)
    for (const [at, count] of counts.entries()) put('_bucket', open + LE[at], count)
    put('_sum', own, data.sum / 1000)
    put('_count', own, counts.at(-1)!)
  }
}

const labelled = (labels: Labels): string => `{${Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`).join(',')}}`

const escapeLabel = (value: string): string => value.replaceAll(/[\\"\n]/g, (one) => (one === '\n' ? '\\n' : `\\${one}`))
const escapeHelp = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
