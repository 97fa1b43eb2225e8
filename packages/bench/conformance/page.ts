/** Writes RESULTS.md. Rows that did not run keep their last result. */
import type { Row } from './row.ts'

export interface RowResult {
  readonly name: string
  readonly passed: boolean
  readonly seen: string
  /** Markdown of a separate section; empty: the cell is enough. */
  readonly detail: string
  readonly seconds: number
  /** Day of the run, UTC. */
  readonly date: string
  /** Figures for `--json`. The page does not keep them. */
  readonly figures?: Readonly<Record<string, number>>
}

/** Versions in a page. */
export function readVersions(text: string): Record<string, string> {
  const list = /^Versions: (.*)\.$/m.exec(text)?.[1]?.split(', ') ?? []
  return Object.fromEntries(list.map((entry) => entry.split(' ', 2) as [string, string]))
}

/** Results in a page. */
export function readPage(text: string): RowResult[] {
  const found = text.matchAll(
    /^\| `([a-z0-9-]+)` \| .*? \| (pass|\*\*fail\*\*) \| (.*) \| (\d+) \| (\d{4}-\d\d-\d\d) \|$/gm,
  )
  return [...found].map(([, name, passed, seen, seconds, date]) => ({
    name: name!,
    passed: passed === 'pass',
    seen: seen!.replaceAll('\\|', '|'),
    detail: detailOf(text, name!),
    seconds: Number(seconds),
    date: date!,
  }))
}

function detailOf(page: string, name: string): string {
  const from = page.indexOf(`\n### ${name}\n\n`)
  if (from < 0) return ''
  const rest = page.slice(from + name.length + 7)
  return rest.slice(0, /\n#{2,3} /.exec(rest)?.index ?? rest.length).trim()
}

export function mergeResults(
  before: readonly RowResult[],
  now: readonly RowResult[],
  order: readonly string[],
): RowResult[] {
  const byName = new Map([...before, ...now].map((result) => [result.name, result]))
  return order.flatMap((name) => byName.get(name) ?? [])
}

export function writePage(
  results: readonly RowResult[],
  rows: readonly Row[],
  versions: Readonly<Record<string, string>>,
): string {
  const says = new Map(rows.map((row) => [row.name, row.says]))
  const lines = results.map(
    ({ name, passed, seen, seconds, date }) =>
      `| \`${name}\` | ${cell(says.get(name) ?? '')} | ${passed ? 'pass' : '**fail**'} | ${cell(seen)} | ` +
      `${Math.round(seconds)} | ${date} |`,
  )
  const details = results.filter(({ detail }) => detail !== '').map(({ name, detail }) => `### ${name}\n\n${detail}\n`)
  const failed = results.filter((result) => !result.passed).length
  return `# Results of the conformance suite

\`npm run conformance\` writes this page. [Conformance](../../../docs/conformance.md) has what it needs and what was found.

Versions: ${Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')}.

${results.length - failed} of ${results.length} rows passed.

| row | claim | result | observation | seconds | date |
| --- | --- | --- | --- | ---: | --- |
${lines.join('\n')}
${details.length === 0 ? '' : `\n## Details\n\n${details.join('\n')}`}
`
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}
