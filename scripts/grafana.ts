/** The Grafana dashboard, generated from the table of metrics. */
import { DASHBOARD_ROWS } from '../src/telemetry/dashboard-row.ts'
import { METRICS } from '../src/telemetry/metrics.ts'
import type { Metric } from '../src/telemetry/metric.ts'

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' }
const FILTER = '{model=~"$model",cluster=~"$cluster",engine=~"$engine"}'
/** Durations have the model under the name of the GenAI conventions. */
const DURATION_FILTER = '{gen_ai_request_model=~"$model",cluster=~"$cluster",engine=~"$engine"}'
const POOL_FILTER = '{model=~"$model",cluster=~"$cluster"}'

interface Query {
  readonly expr: string
  readonly legend: string
  /** Exemplars are shown. Absent: no. */
  readonly exemplar?: boolean
}

interface Place {
  readonly h: number
  readonly w: number
  readonly x: number
  readonly y: number
}

/** A figure of the summary row. */
interface Summary {
  readonly title: string
  readonly about: string
  readonly expr: string
  readonly unit: string
  /** Values from which the figure is yellow and red. Absent: no colour. */
  readonly thresholds?: readonly [number, number]
}

const quantile = (q: number, of = 'time_to_first_token'): string =>
  `histogram_quantile(${q}, sum by (le) (rate(gen_ai_server_${of}_seconds_bucket${DURATION_FILTER}[5m])))`

/** Answers "is the fleet well?" before any detail. */
const SUMMARY: readonly Summary[] = [
  {
    title: 'Engines out',
    about: 'Engines that get no requests and do not drain.',
    expr: `count(firstlight_engine_available${FILTER} == 0 unless firstlight_engine_draining${FILTER} == 1) or vector(0)`,
    unit: 'short',
    thresholds: [1, 2],
  },
  {
    title: 'Requests',
    about: 'Completed requests per second.',
    expr: `sum(rate(firstlight_requests_total${FILTER}[5m]))`,
    unit: 'reqps',
  },
  {
    title: 'Errors',
    about: 'Share of responses with a 5xx status.',
    expr:
      `sum(rate(firstlight_responses_total{model=~"$model",cluster=~"$cluster",engine=~"$engine",status="5xx"}[5m])) / ` +
      `sum(rate(firstlight_responses_total${FILTER}[5m]))`,
    unit: 'percentunit',
    thresholds: [0.001, 0.01],
  },
  {
    title: 'Refusals',
    about:
      'Requests per second that were refused: by pools (overload, full or unavailable engines), and by the gateway before ' +
      'routing (limits and budgets of keys, authentication, invalid requests).',
    expr:
      `(sum(rate(firstlight_refusals_total${POOL_FILTER}[5m])) or vector(0)) + ` +
      '(sum(rate(firstlight_rejected_requests_total[5m])) or vector(0))',
    unit: 'reqps',
  },
  { title: 'TTFT p50', about: 'Median time to the first token.', expr: quantile(0.5), unit: 's' },
  { title: 'TTFT p95', about: '95th percentile of the time to the first token.', expr: quantile(0.95), unit: 's' },
  {
    title: 'Time per token p95',
    about: '95th percentile of the mean time between two output tokens of a response.',
    expr: quantile(0.95, 'time_per_output_token'),
    unit: 's',
  },
  {
    title: 'Output',
    about: 'Output tokens per second, as reported by engines.',
    expr: `sum(rate(firstlight_generation_tokens_total${FILTER}[5m]))`,
    unit: 'short',
  },
  {
    title: 'Longest queue',
    about: 'Prefill work that waits at the busiest engine.',
    expr: `max(firstlight_engine_pending_prefill_seconds${FILTER})`,
    unit: 's',
  },
]

/** A variable of the dashboard. */
const variable = (name: string, query: string) => ({
  name,
  type: 'query',
  datasource: DATASOURCE,
  query: { query, refId: name },
  refresh: 2,
  includeAll: true,
  multi: true,
  allValue: '.*',
  current: { selected: true, text: 'All', value: '$__all' },
})

/** Columns of the dashboard. */
const COLUMNS = 24

/** One row of figures. What does not divide its width goes to the first ones. */
function summaryPanels(): object[] {
  const w = Math.floor(COLUMNS / SUMMARY.length)
  const wider = COLUMNS - w * SUMMARY.length
  return SUMMARY.map((figure, at) => {
    const x = w * at + Math.min(at, wider)
    return stat(figure, at + 1, { h: 4, w: at < wider ? w + 1 : w, x, y: 0 })
  })
}

/** A dashboard for Grafana 10 and later. Import it and choose the data source. */
export function grafanaDashboard(): string {
  const panels = summaryPanels()
  let y = 4
  for (const title of DASHBOARD_ROWS) {
    const metrics = METRICS.filter((metric) => metric.row === title)
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { h: 1, w: 24, x: 0, y },
      panels: [],
    })
    y += 1
    for (const [at, metric] of metrics.entries()) {
      panels.push(panel(metric, panels.length + 1, { h: 8, w: 8, x: 8 * (at % 3), y: y + 8 * Math.floor(at / 3) }))
    }
    y += 8 * Math.ceil(metrics.length / 3)
  }
  const dashboard = {
    title: 'Firstlight',
    uid: 'firstlight',
    tags: ['llm', 'firstlight'],
    timezone: 'browser',
    schemaVersion: 39,
    editable: true,
    refresh: '10s',
    time: { from: 'now-30m', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus' },
        variable('model', 'label_values(firstlight_engine_available, model)'),
        variable('cluster', 'label_values(firstlight_engine_available{model=~"$model"}, cluster)'),
        variable('engine', `label_values(firstlight_engine_available${POOL_FILTER}, engine)`),
      ],
    },
    panels,
  }
  return `${JSON.stringify(dashboard, null, 2)}\n`
}

/** Abbreviations in titles. */
const WORDS: Readonly<Record<string, string>> = {
  ttft: 'TTFT',
  kv: 'KV',
  rtt: 'round trip',
  num: '',
  ms: '',
  time_to_first_token: 'TTFT',
  time_per_output_token: 'time per output token',
}

/** Title of a panel: the metric's name in words, without prefix and unit. */
export function titleOf({ name, type }: Pick<Metric, 'name' | 'type'>): string {
  const bare = name
    .replace(/^(?:firstlight|gen_ai_server)_/, '')
    .replace(/_total$/, '')
    .replace(/_(?:seconds|ratio)$/, '')
    .replace('time_to_first_token', 'ttft')
    .replace(/_mean$/, '')
  const words = bare
    .split('_')
    .map((word) => WORDS[word] ?? word)
    .filter((word) => word !== '')
    .join(' ')
  const title = words.charAt(0).toUpperCase() + words.slice(1)
  return type === 'counter' ? `${title} per second` : title
}

function panel(metric: Metric, id: number, gridPos: Place): object {
  const unit = metric.name.includes('_seconds') ? 's' : metric.name.endsWith('_ratio') ? 'percentunit' : 'short'
  return {
    id,
    type: 'timeseries',
    title: titleOf(metric),
    description: `${metric.help} (${metric.name})`,
    datasource: DATASOURCE,
    gridPos,
    fieldConfig: { defaults: { unit, custom: { fillOpacity: 8, lineWidth: 1 } }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
    targets: targets(queries(metric)),
  }
}

function stat({ title, about, expr, unit, thresholds }: Summary, id: number, gridPos: Place): object {
  const steps = [
    { color: thresholds === undefined ? 'text' : 'green', value: null },
    ...(thresholds ?? []).map((value, at) => ({ color: at === 0 ? 'yellow' : 'red', value })),
  ]
  return {
    id,
    type: 'stat',
    title,
    description: about,
    datasource: DATASOURCE,
    gridPos,
    fieldConfig: { defaults: { unit, thresholds: { mode: 'absolute', steps } }, overrides: [] },
    options: { graphMode: 'area', colorMode: 'value', reduceOptions: { calcs: ['lastNotNull'] } },
    targets: targets([{ expr, legend: title }]),
  }
}

const targets = (all: readonly Query[]): object[] =>
  all.map(({ expr, legend, exemplar }, at) => ({
    refId: String.fromCodePoint(65 + at),
    datasource: DATASOURCE,
    expr,
    legendFormat: legend,
    ...(exemplar === true ? { exemplar } : {}),
  }))

function queries(metric: Metric): readonly Query[] {
  const { name } = metric
  switch (metric.from) {
    case 'engine':
      return [
        {
          expr: metric.type === 'counter' ? `rate(${name}${FILTER}[5m])` : `${name}${FILTER}`,
          legend: '{{cluster}} {{engine}}',
        },
      ]
    case 'state':
      return [
        {
          expr: `${name}{model=~"$model",cluster=~"$cluster",engine=~"$engine",${metric.label}!="${metric.states[0]}"} == 1`,
          legend: `{{engine}} {{${metric.label}}}`,
        },
      ]
    case 'decision': {
      const labels = metric.labels.map((label) => (label === 'refused' ? 'reason' : label))
      const selected = `${name}${POOL_FILTER}`
      const expr = metric.type === 'counter' ? `rate(${selected}[5m])` : selected
      return [
        {
          expr: `sum by (${['cluster', ...labels].join(', ')}) (${expr})`,
          legend: ['{{cluster}}', ...labels.map((label) => `{{${label}}}`)].join(' '),
        },
      ]
    }
    case 'count':
      return [
        {
          expr: `sum by (${metric.label ?? 'engine'}) (rate(${name}${FILTER}[5m]))`,
          legend: `{{${metric.label ?? 'engine'}}}`,
        },
      ]
    case 'duration': {
      const by = metric.stage === null ? 'stage' : 'cluster'
      return ['0.5', '0.95', '0.99'].slice(0, metric.stage === null ? 1 : 3).map((q) => ({
        expr: `histogram_quantile(${q}, sum by (le, ${by}) (rate(${name}_bucket${metric.stage === null ? FILTER : DURATION_FILTER}[5m])))`,
        legend: `{{${by}}} p${Math.round(Number(q) * 100)}`,
        exemplar: q === '0.99' && (metric.stage === 'ttft' || metric.stage === 'duration'),
      }))
    }
    case 'region':
    case 'pool':
      return [{ expr: `${name}${POOL_FILTER}`, legend: '{{cluster}} {{model}}' }]
    case 'capacity':
      return [{ expr: `${name}${POOL_FILTER}`, legend: '{{cluster}} {{model}} {{role}}' }]
    case 'target':
      return [{ expr: `sum by (name, target) (rate(${name}[5m]))`, legend: '{{name}} {{target}}' }]
    case 'gateway_counts':
      return [{ expr: `sum by (${metric.label}) (rate(${name}[5m]))`, legend: `{{${metric.label}}}` }]
    case 'gateway':
      return [{ expr: metric.type === 'counter' ? `rate(${name}[5m])` : name, legend: '{{instance}}' }]
  }
}
