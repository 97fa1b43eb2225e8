import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { grafanaDashboard, metricsMarkdown } from '../../scripts/metrics-docs.ts'
import { METRICS } from '../../src/telemetry/metrics.ts'

const file = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

it('docs/metrics.md and the dashboard are those of this table (else: npm run docs)', () => {
  expect(file('docs/metrics.md')).toBe(metricsMarkdown())
  expect(file('examples/grafana/firstlight.json')).toBe(grafanaDashboard())
})

it('the dashboard asks for nothing that is not exposed', () => {
  const { panels } = JSON.parse(grafanaDashboard()) as { panels: { targets?: { expr: string }[] }[] }
  const asked = panels.flatMap(({ targets }) => targets ?? []).flatMap(({ expr }) => expr.match(/\b(?:firstlight|gen_ai)_[a-z_]*[a-z]\b(?=[{[])/g) ?? [])
  const exposed = new Set(METRICS.flatMap(({ name, type }) => (type === 'histogram' ? [name, `${name}_bucket`] : [name])))
  expect(asked.length).toBeGreaterThan(20)
  expect(asked.filter((name) => !exposed.has(name))).toEqual([])
})

it('every metric is named as its kind wants, once', () => {
  const names = METRICS.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  for (const { name, type, help } of METRICS) {
    expect(name).toMatch(/^(firstlight|gen_ai_server)_[a-z0-9_]+$/)
    expect([name, name.endsWith('_total')]).toEqual([name, type === 'counter'])
    if (type === 'histogram') expect(name).toMatch(/_seconds$/)
    expect(String(help)).toMatch(/[.?]$/)
  }
})
