/** Metrics in OTLP/HTTP JSON, read from the OpenMetrics text, so that a collector gets what `/metrics` shows. */
import { attributes, OTLP_SCOPE, otlpResource, type OtlpResource, toNanoseconds } from './otlp-fields.ts'

/** Sums and histograms count from the start of the process. */
const CUMULATIVE = 2

interface Period {
  /** Start of the counters, ms since the epoch. */
  readonly startedAt: number
  /** Time of the values, ms since the epoch. */
  readonly now: number
}

type Labels = Readonly<Record<string, string>>

interface Family {
  readonly name: string
  readonly description: string
  readonly type: string
  readonly samples: {
    readonly name: string
    readonly labels: Labels
    readonly value: number
    /** undefined: it has none. */
    readonly exemplar: unknown
  }[]
}

/** Encodes an ExportMetricsServiceRequest from an OpenMetrics text of `exposition`. */
export function metricExportBody(text: string, resource: OtlpResource, period: Period): unknown {
  const metrics = familiesIn(text).map((family) => metricOf(family, period))
  return { resourceMetrics: [{ resource: otlpResource(resource), scopeMetrics: [{ scope: OTLP_SCOPE, metrics }] }] }
}

function metricOf(family: Family, period: Period): unknown {
  const { name, description, type } = family
  if (type === 'histogram')
    return {
      name,
      description,
      unit: 's',
      histogram: { aggregationTemporality: CUMULATIVE, dataPoints: histogramPoints(family, period) },
    }
  const dataPoints = family.samples.map(({ labels, value }) => ({ ...pointOf(labels, period), asDouble: value }))
  if (type === 'gauge') return { name, description, gauge: { dataPoints } }
  return { name, description, sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } }
}

const pointOf = (labels: Labels, { startedAt, now }: Period) => ({
  attributes: attributes(labels),
  startTimeUnixNano: toNanoseconds(startedAt),
  timeUnixNano: toNanoseconds(now),
})

/** One point for each set of labels: `_bucket` lines in order of `le`, then `_sum` and `_count`. */
function histogramPoints({ name, samples }: Family, period: Period): unknown[] {
  const points: unknown[] = []
  let bounds: number[] = []
  let counts: number[] = []
  let exemplars: unknown[] = []
  let sum = 0
  for (const { name: line, labels, value, exemplar } of samples) {
    if (line === `${name}_bucket`) {
      if (labels['le'] !== '+Inf') bounds.push(Number(labels['le']))
      counts.push(value)
      if (exemplar !== undefined) exemplars.push(exemplar)
    } else if (line === `${name}_sum`) sum = value
    else {
      const bucketCounts = counts.map((count, at) => String(count - (counts[at - 1] ?? 0)))
      const point = { ...pointOf(labels, period), count: String(value), sum, explicitBounds: bounds, bucketCounts }
      points.push(exemplars.length === 0 ? point : { ...point, exemplars })
      bounds = []
      counts = []
      exemplars = []
    }
  }
  return points
}

/** Sample and exemplar: its labels, its value and its time. */
const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: # \{(.*)\} (\S+) (\S+))?$/

const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

function familiesIn(text: string): Family[] {
  const families: Family[] = []
  let description = ''
  for (const line of text.split('\n')) {
    if (line.startsWith('# HELP ')) description = unescaped(line.slice(line.indexOf(' ', 7) + 1))
    else if (line.startsWith('# TYPE ')) {
      const [family, type] = line.slice(7).split(' ')
      const name = type === 'counter' ? `${family}_total` : family!
      families.push({ name, type: type!, description, samples: [] })
    } else {
      const [, name, labels = '', value, ...exemplar] = LINE.exec(line) ?? []
      if (name === undefined) continue
      families.at(-1)!.samples.push({
        name,
        labels: labelsIn(labels),
        value: Number(value),
        exemplar: exemplarOf(exemplar),
      })
    }
  }
  return families
}

/** undefined: the sample has none. */
function exemplarOf([labels, seconds, at]: readonly (string | undefined)[]): unknown {
  if (labels === undefined) return undefined
  const { trace_id: traceId, span_id: spanId } = labelsIn(labels)
  return { timeUnixNano: toNanoseconds(Number(at) * 1000), asDouble: Number(seconds), traceId, spanId }
}

const labelsIn = (text: string): Labels =>
  Object.fromEntries([...text.matchAll(LABEL)].map(([, name, value]) => [name!, unescaped(value!)]))

const unescaped = (text: string): string => text.replaceAll(/\\(.)/g, (_, one: string) => (one === 'n' ? '\n' : one))
