/** Generates the tables of docs/engines.md from the engine types. The text around them is written by hand. */
import { guideOf } from '../src/engines/engine-guides.ts'
import { ENGINE_TYPES } from '../src/engines/engine-registry.ts'
import { SERVER_TYPES, type EngineType } from '../src/engines/engine-type.ts'
import { metricNames } from '../src/engines/load-metrics.ts'

const TYPES: readonly EngineType[] = ENGINE_TYPES.filter((type) => SERVER_TYPES.some((name) => name === type.name))

const code = (text: string): string => `\`${text}\``
const list = (texts: readonly string[]): string => (texts.length === 0 ? 'no' : texts.map(code).join(', '))

/** What the gateway reads and uses of each type. */
const ROWS: readonly (readonly [string, (type: EngineType) => string])[] = [
  ['`type`', ({ name }) => code(name)],
  ['health check', ({ health }) => (health.length === 0 ? 'its digest' : list(health.map(({ path }) => path)))],
  ['version', ({ version }) => (version === null ? 'no' : code(version.path))],
  ['load', ({ load }) => (load === null ? 'no' : load.enabledBy === null ? 'yes' : code(load.enabledBy))],
  ['context length', ({ capacity }) => (capacity === null ? 'no' : code(capacity.path))],
  [
    'cached tokens per response',
    (type) => {
      const { cachedTokensBy } = guideOf(type)
      return cachedTokensBy === null ? 'by version' : code(cachedTokensBy)
    },
  ],
  [
    'KV events',
    (type) => {
      const { kvEvents } = guideOf(type)
      return kvEvents === null ? 'no' : code(kvEvents.enabledBy)
    },
  ],
  ['token ids of prompts', ({ tokenize }) => (tokenize === null ? 'no' : 'yes')],
  [
    'transfer of KV data',
    (type) =>
      list(
        guideOf(type)
          .connectors.filter((one) => one.implemented)
          .map(({ name }) => name),
      ),
  ],
  ['sleep and pause are seen', ({ sleep }) => list(sleep?.states.map(({ path }) => path) ?? [])],
  ['fields that may be added', ({ addable }) => list(addable)],
  ['data-parallel ranks as engines', ({ ranks }) => (ranks === null ? 'no' : `\`${ranks.header}\``)],
  ['checks the name of the model', ({ checksModel }) => (checksModel ? 'yes' : 'no')],
]

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n')

const matrix = (): string =>
  table(
    ['', ...TYPES.map(({ title }) => title)],
    ROWS.map(([name, cell]) => [name, ...TYPES.map(cell)]),
  )

const metrics = (): string =>
  table(
    ['server', 'paths', 'metrics'],
    TYPES.flatMap(({ title, load }) =>
      load === null ? [] : [[title, list(load.paths), list([...new Set(metricNames(load.metrics))])]],
    ),
  )

const SECTIONS: Readonly<Record<string, () => string>> = { matrix, metrics }

/** Replaces each generated section of the page. */
export function enginesMarkdown(page: string): string {
  return page.replace(
    /(<!-- (\w+): generated from src\/engines by `npm run docs` -->\n\n)[\s\S]*?(\n\n<!-- end -->)/g,
    (_, begin: string, name: string, end: string) => `${begin}${SECTIONS[name]!()}${end}`,
  )
}
