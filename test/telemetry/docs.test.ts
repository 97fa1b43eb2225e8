import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { grafanaDashboard, titleOf } from '../../scripts/grafana.ts'
import { labelsOf, metricsMarkdown } from '../../scripts/metrics-docs.ts'
import { BUCKETS_S, METRICS } from '../../src/telemetry/metrics.ts'

const file = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

it('docs/metrics.md and the Grafana dashboard match the table of metrics (else: npm run docs)', () => {
  expect(file('docs/metrics.md')).toBe(metricsMarkdown())
  expect(file('examples/grafana/firstlight.json')).toBe(grafanaDashboard())
})

/** Samples of a scrape: name → labels. */
const series = new Map<string, readonly string[]>(
  METRICS.flatMap((metric): [string, readonly string[]][] => {
    const labels = labelsOf(metric)
    return metric.type === 'histogram'
      ? [
          [`${metric.name}_bucket`, [...labels, 'le']],
          [`${metric.name}_sum`, labels],
          [`${metric.name}_count`, labels],
        ]
      : [[metric.name, labels]]
  }),
)
/** Labels that Prometheus adds to every sample. */
const SCRAPED = ['job', 'instance']
const OURS = /\b(?:firstlight|gen_ai)_[a-z_]*[a-z]\b/g

/** Names of metrics, samples and labels. */
const named = new Set([...METRICS.map(({ name }) => name), ...series.keys(), ...[...series.values()].flat()])

/** Problems of a query: names and labels that no scrape has. `shown`: labels that its legend or text uses. */
function faultsOf(query: string, shown: readonly string[] = []): string[] {
  const faults: string[] = []
  const bare = query.replaceAll(/"[^"]*"/g, '""')
  const kept = [...bare.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels]) => labels!.split(/,\s*/))
  const selected = [...bare.replaceAll(/\bby \([^)]*\)/g, '').matchAll(/\b([a-z_]+)\b(?:\{([^}]*)\})?/g)].filter(
    ([, name]) => name!.startsWith('firstlight_') || name!.startsWith('gen_ai_'),
  )
  for (const [, name, matchers = ''] of selected) {
    const labels = series.get(name!)
    if (labels === undefined) faults.push(`no scrape has ${name}`)
    const known = [...(labels ?? []), ...SCRAPED]
    for (const label of [...matchers.matchAll(/(\w+)\s*[=!]/g)].map(([, one]) => one!).concat(kept))
      if (!known.includes(label)) faults.push(`${name} has no ${label}`)
    for (const label of shown)
      if (!(kept.length > 0 ? kept : known).includes(label)) faults.push(`${label} is not there to be shown: ${query}`)
  }
  return faults
}

it('a query with an unknown metric or label is reported', () => {
  expect(faultsOf('rate(firstlight_engine_available{cluster=~"$cluster"}[5m])', ['engine', 'instance'])).toEqual([])
  expect(faultsOf('firstlight_engine_speed')).toHaveLength(1)
  expect(faultsOf('firstlight_draining{engine="a"}')).toHaveLength(1)
  expect(faultsOf('sum by (le, stage) (rate(gen_ai_server_time_to_first_token_seconds_bucket[5m]))')).toHaveLength(1)
  expect(faultsOf('gen_ai_server_time_to_first_token_seconds')).toHaveLength(1)
  expect(faultsOf('sum by (model) (firstlight_engine_available)', ['engine'])).toHaveLength(1)
})

it('the Grafana dashboard begins with figures of health, refusals of pools and gateway, and the time per token, of the chosen model', () => {
  const { panels, templating } = JSON.parse(grafanaDashboard()) as {
    panels: { type: string; title: string; targets?: { expr: string; exemplar?: boolean }[] }[]
    templating: { list: { name: string }[] }
  }
  const figures = panels.slice(
    0,
    panels.findIndex(({ type }) => type === 'row'),
  )
  const exprOf = (title: string) => figures.find((figure) => figure.title === title)!.targets![0]!.expr
  expect(figures[0]!.title).toBe('Engines out')
  expect(panels[figures.length]!.title).toBe('Health')
  for (const name of ['firstlight_refusals_total', 'firstlight_rejected_requests_total'])
    expect(exprOf('Refusals')).toContain(name)
  expect(exprOf('Time per token p95')).toContain('gen_ai_server_time_per_output_token_seconds_bucket')
  expect(templating.list.map(({ name }) => name)).toContain('model')
  expect(
    panels.flatMap(({ title, targets = [] }) => (targets.some(({ exemplar }) => exemplar === true) ? [title] : [])),
  ).toEqual([
    titleOf({ name: 'gen_ai_server_time_to_first_token_seconds', type: 'histogram' }),
    titleOf({ name: 'gen_ai_server_request_duration_seconds', type: 'histogram' }),
  ])
})

it('the buckets of durations between 10 and 80 s grow by half at most', () => {
  const limits = BUCKETS_S.filter((limitS) => limitS >= 10 && limitS <= 80)
  expect([limits[0], limits.at(-1)]).toEqual([10, 80])
  for (const [at, limitS] of limits.slice(1).entries()) expect(limitS / limits[at]!).toBeLessThanOrEqual(1.5)
})

it('the Grafana dashboard uses only existing metrics and labels', () => {
  const { panels, templating } = JSON.parse(file('examples/grafana/firstlight.json')) as {
    panels: { targets?: { expr: string; legendFormat: string }[] }[]
    templating: { list: { query: string | { query: string } }[] }
  }
  const targets = panels.flatMap((panel) => panel.targets ?? [])
  expect(targets.length).toBeGreaterThan(20)
  for (const { expr, legendFormat } of targets)
    expect(
      faultsOf(
        expr,
        [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!),
      ),
    ).toEqual([])
  for (const { query } of templating.list) {
    if (typeof query === 'string') continue
    const [, selector, label] = /^label_values\((.*), (\w+)\)$/.exec(query.query)!
    expect(faultsOf(selector!, [label!])).toEqual([])
  }
})

it('panels have titles in words, and a first row of single figures', () => {
  expect(titleOf({ name: 'firstlight_engine_pending_prefill_seconds', type: 'gauge' })).toBe('Engine pending prefill')
  expect(titleOf({ name: 'gen_ai_server_time_to_first_token_seconds', type: 'histogram' })).toBe('TTFT')
  expect(titleOf({ name: 'firstlight_key_output_tokens_total', type: 'counter' })).toBe('Key output tokens per second')
  const { panels } = JSON.parse(file('examples/grafana/firstlight.json')) as {
    panels: { title: string; type: string; gridPos: { y: number; x: number; w: number } }[]
  }
  expect(panels.filter(({ title }) => /_|firstlight/.test(title))).toEqual([])
  const first = panels.filter(({ gridPos }) => gridPos.y === 0)
  expect(first.every(({ type }) => type === 'stat')).toBe(true)
  expect(first.reduce((sum, { gridPos }) => sum + gridPos.w, 0)).toBe(24)
})

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly annotations: Readonly<Record<string, string>>
}

it('the alerts use only existing metrics and labels, in queries and texts', () => {
  const { groups } = load(file('examples/prometheus/alerts.yml')) as { groups: { rules: Rule[] }[] }
  const rules = groups.flatMap((group) => group.rules)
  expect(rules.length).toBeGreaterThan(5)
  for (const { alert, expr, annotations } of rules) {
    const shown = [
      ...Object.values(annotations)
        .join(' ')
        .matchAll(/\$labels\.(\w+)/g),
    ].map(([, label]) => label!)
    expect([alert, ...faultsOf(expr, shown)]).toEqual([alert])
    expect([
      alert,
      ...(Object.values(annotations).join(' ').match(OURS) ?? []).filter((name) => !named.has(name)),
    ]).toEqual([alert])
  }
})

it.each([
  'README.md',
  'CHANGELOG.md',
  ...readdirSync(new URL('../../docs', import.meta.url), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
])('%s mentions only existing metrics', (page) => {
  expect((file(page).match(OURS) ?? []).filter((name) => !named.has(name))).toEqual([])
})

// Debian: apt install prometheus.
const hasPromtool = spawnSync('promtool', ['--version']).status === 0

it.skipIf(!hasPromtool)('promtool accepts the alerts, and they fire under the right conditions only', () => {
  for (const args of [
    ['check', 'rules', 'examples/prometheus/alerts.yml'],
    ['test', 'rules', 'test/telemetry/alerts.yml'],
  ]) {
    const { status, stdout, stderr } = spawnSync('promtool', args, {
      cwd: new URL('../..', import.meta.url),
      encoding: 'utf8',
    })
    expect([args, status, stdout + stderr]).toEqual([args, 0, expect.any(String)])
  }
})

it('every metric name is unique and follows the conventions of its type', () => {
  const names = METRICS.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  for (const { name, type, help } of METRICS) {
    expect(name).toMatch(/^(firstlight|gen_ai_server)_[a-z0-9_]+$/)
    expect([name, name.endsWith('_total')]).toEqual([name, type === 'counter'])
    if (type === 'histogram') expect(name).toMatch(/_seconds$/)
    expect(String(help)).toMatch(/[.?]$/)
  }
})

it('the docs name only metrics that exist', () => {
  const pages = readdirSync(new URL('../../docs', import.meta.url)).filter((name) => name.endsWith('.md'))
  const wrong = pages.flatMap((page) =>
    (file(`docs/${page}`).match(OURS) ?? [])
      .filter((name) => !named.has(name) && !name.startsWith('firstlight_bridge_'))
      .map((name) => `${page}: ${name}`),
  )
  expect(wrong).toEqual([])
})
