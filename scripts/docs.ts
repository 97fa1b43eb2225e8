/** Writes the generated pages. A test fails if they are out of date. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cliMarkdown } from './cli-docs.ts'
import { configJsonSchema, configMarkdown } from './config-docs.ts'
import { enginesMarkdown } from './engines-docs.ts'
import { grafanaDashboard } from './grafana.ts'
import { metricsMarkdown } from './metrics-docs.ts'
import { openApiJson } from './openapi-docs.ts'

const page = (name: string) => new URL(`../docs/${name}`, import.meta.url)

writeFileSync(page('cli.md'), await cliMarkdown())
writeFileSync(page('config.md'), configMarkdown())
writeFileSync(page('engines.md'), enginesMarkdown(readFileSync(page('engines.md'), 'utf8')))
writeFileSync(page('firstlight.schema.json'), configJsonSchema())
writeFileSync(page('metrics.md'), metricsMarkdown())
writeFileSync(new URL('../src/api/openapi/document.json', import.meta.url), openApiJson())
mkdirSync(new URL('../examples/grafana', import.meta.url), { recursive: true })
writeFileSync(new URL('../examples/grafana/firstlight.json', import.meta.url), grafanaDashboard())
// Templates of a chart read only files inside it.
const chartFile = (name: string) => new URL(`../deploy/helm/firstlight/files/${name}`, import.meta.url)
writeFileSync(chartFile('dashboard.json'), grafanaDashboard())
copyFileSync(new URL('../examples/prometheus/alerts.yml', import.meta.url), chartFile('alerts.yml'))
console.log(
  'Wrote docs/cli.md, docs/config.md, docs/engines.md, docs/firstlight.schema.json, docs/metrics.md, src/api/openapi/document.json, examples/grafana/firstlight.json and files of the chart.',
)
