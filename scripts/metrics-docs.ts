/** Generates docs/metrics.md and the Grafana dashboard from the table of metrics. */
import { BUCKETS_S, METRICS, NAMED_STAGES, OWN_COUNTS, type Metric } from '../src/telemetry/metrics.ts'

const head = `# Metrics

<!-- Generated from src/telemetry/metrics.ts by \`npm run docs\`; edit it there. -->

\`GET /metrics\` returns the Prometheus text format, with the same text on both runtimes. It needs \`metrics.key\` as
\`authorization: Bearer\`, or the admin key, or no key on a loopback listener.

\`\`\`yaml
# prometheus.yml
scrape_configs:
  - job_name: firstlight
    authorization: { credentials_file: /etc/prometheus/firstlight.key }
    static_configs: [{ targets: ['127.0.0.1:8080'] }]
\`\`\`

* **Labels** are names of your configuration (model, cluster, engine) and of closed lists; never an address, a key or text of a client.
* **Unknown values** have no sample, instead of a zero.
* **On Node** a process counts its own requests. **On Workers** most metrics come from the Durable Objects and are the same in every isolate.
  Metrics of completed requests need \`ttft: { enabled: true }\` there and are some seconds late. Counters of the gateway itself
  (${OWN_COUNTS.map(({ name }) => `\`${name}\``).join(', ')}) and \`firstlight_region_*\` are summed or merged over all isolates, at most 1 s late; \`firstlight_buffered_bytes\` and round trips are those of the isolate that answers.
* **After a restart** counters start at zero; on Workers those of completed requests survive an eviction.
* **The number of names is bounded.** Beyond 5,000 engines, further ones share the name \`other\`. Beyond 1,000 names, those without requests for a day
  are not shown, and are dropped after another day; such an engine starts at zero again. A counter that is shown never falls.
* **Histograms** are stored as sketches with a relative error of 1 % and shown in buckets of seconds: ${BUCKETS_S.join(', ')}.
* **A scrape on Node does not delay requests.** It shows one moment and is written in pieces, between which requests are served: of 200 engines with every
  histogram filled, 14 MB, a piece takes less than a millisecond.

[examples/grafana/firstlight.json](../examples/grafana/firstlight.json) is a Grafana dashboard generated from the same table;
[examples/prometheus/alerts.yml](../examples/prometheus/alerts.yml) has alerts to start with.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
`

export function metricsMarkdown(): string {
  const rows = METRICS.map(
    (metric) =>
      `| \`${metric.name}\` | ${metric.type} | ${labelsOf(metric).join(', ')} | ${String(metric.help).replaceAll('|', '\\|')} |`,
  )
  const stages = `
Stages of \`firstlight_stage_seconds\`: \`edge\` (reading and checking), \`tokens\`, \`lookup\` (what LMCache holds), \`admit\` (ranking and booking), \`encode\`,
\`prefill_leg\`, \`transfer\`, \`connect\`, \`first_byte\` (from dispatch), and as engines report them \`enc_queue\`, \`enc_compute\`, \`emb_cache_transfer\`,
\`prefill_queue\`, \`prefill_compute\`, \`reported_ttft\` (their sum). ${[...NAMED_STAGES].map((name) => `\`${name}\``).join(', ')} have metrics of their own.
`
  return `${head}${rows.join('\n')}\n${stages}`
}

/** Labels of each sample in order, without `le`. */
export function labelsOf(metric: Metric): string[] {
  const engine = ['model', 'cluster', 'engine']
  switch (metric.from) {
    case 'engine':
      return engine
    case 'state':
      return [...engine, metric.label]
    case 'decision':
      return ['model', 'cluster', ...metric.labels.map((label) => (label === 'refused' ? 'reason' : label))]
    case 'count':
      return metric.label === undefined ? engine : [...engine, metric.label]
    case 'duration':
      return metric.stage === null ? [...engine, 'stage'] : ['gen_ai_request_model', 'cluster', 'engine']
    case 'region':
      return ['model', 'cluster']
    case 'gateway_counts':
      return [metric.label]
    case 'gateway':
      return []
  }
}

const ROWS = ['TTFT', 'Load', 'Requests', 'Cache', 'Prediction', 'Decisions', 'Learned', 'Regions', 'Health']
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' }

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

/** A dashboard for Grafana 10 and later. Import it and choose the data source. */
export function grafanaDashboard(): string {
  const panels: object[] = []
  let y = 0
  for (const title of ROWS) {
    const metrics = METRICS.filter((metric) => metric.panel === title)
    if (metrics.length === 0) continue
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
        variable('cluster', 'label_values(firstlight_engine_available, cluster)'),
        variable('engine', 'label_values(firstlight_engine_available{cluster=~"$cluster"}, engine)'),
      ],
    },
    panels,
  }
  return `${JSON.stringify(dashboard, null, 2)}\n`
}

function panel(metric: Metric, id: number, gridPos: object): object {
  const targets = queries(metric).map(({ expr, legend }, at) => ({
    refId: String.fromCodePoint(65 + at),
    datasource: DATASOURCE,
    expr,
    legendFormat: legend,
  }))
  const unit = metric.name.includes('_seconds') ? 's' : metric.name.endsWith('_ratio') ? 'percentunit' : 'short'
  return {
    id,
    type: 'timeseries',
    title: metric.name,
    description: metric.help,
    datasource: DATASOURCE,
    gridPos,
    fieldConfig: { defaults: { unit, custom: { fillOpacity: 8, lineWidth: 1 } }, overrides: [] },
    options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
    targets,
  }
}

function queries(metric: Metric): { readonly expr: string; readonly legend: string }[] {
  const { name } = metric
  const filter = '{cluster=~"$cluster",engine=~"$engine"}'
  switch (metric.from) {
    case 'engine':
      return [
        {
          expr: metric.type === 'counter' ? `rate(${name}${filter}[5m])` : `${name}${filter}`,
          legend: '{{cluster}} {{engine}}',
        },
      ]
    case 'state':
      return [
        {
          expr: `${name}{cluster=~"$cluster",engine=~"$engine",${metric.label}!="${metric.states[0]}"} == 1`,
          legend: `{{engine}} {{${metric.label}}}`,
        },
      ]
    case 'decision': {
      const labels = metric.labels.map((label) => (label === 'refused' ? 'reason' : label))
      const selected = `${name}{cluster=~"$cluster"}`
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
          expr: `sum by (${metric.label ?? 'engine'}) (rate(${name}${filter}[5m]))`,
          legend: `{{${metric.label ?? 'engine'}}}`,
        },
      ]
    case 'duration': {
      const by = metric.stage === null ? 'stage' : 'cluster'
      return ['0.5', '0.95', '0.99'].slice(0, metric.stage === null ? 1 : 3).map((q) => ({
        expr: `histogram_quantile(${q}, sum by (le, ${by}) (rate(${name}_bucket${filter}[5m])))`,
        legend: `{{${by}}} p${Math.round(Number(q) * 100)}`,
      }))
    }
    case 'region':
      return [{ expr: `${name}{cluster=~"$cluster"}`, legend: '{{cluster}} {{model}}' }]
    case 'gateway_counts':
      return [{ expr: `sum by (${metric.label}) (rate(${name}[5m]))`, legend: `{{${metric.label}}}` }]
    case 'gateway':
      return [{ expr: metric.type === 'counter' ? `rate(${name}[5m])` : name, legend: '{{instance}}' }]
  }
}
