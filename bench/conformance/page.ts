/** docs/conformance.md: written whole on every run; rows that did not run keep what they last said. */
import type { Row } from './row.ts'

export interface RowResult {
  readonly name: string
  readonly passed: boolean
  readonly seen: string
  /** Markdown for a section of its own; empty: the cell says it all. */
  readonly detail: string
  readonly seconds: number
  /** Day of the run, UTC. */
  readonly date: string
}

/** The results that a page holds. */
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
      `| \`${name}\` | ${cell(says.get(name) ?? '')} | ${passed ? 'pass' : '**fail**'} | ${cell(seen)} | ${Math.round(seconds)} | ${date} |`,
  )
  const details = results.filter(({ detail }) => detail !== '').map(({ name, detail }) => `### ${name}\n\n${detail}\n`)
  const failed = results.filter((result) => !result.passed).length
  return `# Conformance with real engines

\`npm run conformance\` checks what Firstlight assumes about engines against real ones: vLLM servers on the CPU, with made-up
weights, started and stopped by the command itself. It also records their answers in \`test/vectors\`, which \`npm test\` replays
against the gateway and the simulated engine. \`npm run conformance -- --list\` names the rows; give names, or beginnings of names, to run
only those: the others keep what they said on the day they last ran.

It needs Linux on x86-64 with AVX2, Python 3.11 to 3.13, 7 GB of disk and 12 GB of memory, and the Python package index. The first run
installs for about two minutes into \`.cache/conformance\`; each server takes about a minute to start. What a CPU cannot show is the
speed of a GPU.

Versions: ${Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')}.

${results.length - failed} of ${results.length} rows passed.

| row | what it says | result | seen | seconds | date |
| --- | --- | --- | --- | ---: | --- |
${lines.join('\n')}
${details.length === 0 ? '' : `\n## Details\n\n${details.join('\n')}`}
## Seen on the way

What these engines do that one would not expect:

- A stream that finds the engine full only after its head was sent gets **200 and one error event** with code 503, where others get a plain 503. In a burst that is the usual case.
- \`POST /pause\` ends running streams with \`finish_reason: "abort"\` and a clean \`[DONE]\`. A paused engine looks well in \`/health\` and \`/metrics\`; only \`/is_paused\` tells.
- When the engine core dies, streams end in an error event and then \`[DONE]\`; \`/health\` is 500 for a moment, then the server is gone.
- A prompt of exactly *k* blocks that was seen before reports *k* - 1 cached blocks: one token has to be computed.
- Several tokens may come in one event, all of a choice in its last one, and choices of one request in any order.
- With NIXL, the worker process keeps a core half busy while it is idle, and a body with \`"kv_transfer_params": {"do_remote_prefill": true}\` ends the server.
- \`/tokenize\`, \`/health\` and \`/metrics\` ask for no key.
- A decode engine that is to fetch from a prefill engine that has died answers **500** after up to 5 s and lives on: it must be asked again, without.
- NIXL's parameters can be used twice. Of a prompt it fetched, a decode engine reports 0 cached tokens, also when it has the blocks itself by then.
- Prompts that wait together are prefilled in one step, and all get their first token at its end: a short one may have to wait for a long one that came after it.
- An LMCache server whose heartbeat is answered 404 registers again at once: the coordinator may be replaced while engines run. What was stored before is not reported again.
- A Whisper told to \`--enable-prefix-caching\` starts, and **ends at its first request** ("CrossAttentionManager does not support caching"); left to itself it keeps no prefixes.
- Speech: \`response_format=text\` is answered as JSON, \`srt\` and \`vtt\` with 400; a form without a \`model\` is written down by whatever there is; audio wants \`soundfile\`, which comes with \`vllm[audio]\` alone.
- vLLM 0.32 lets no page read its answers unless \`--allowed-origins\` says which; earlier ones let all.
- On shared cores an engine in the middle of a stream may take five seconds to answer \`/metrics\`.
`
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}
