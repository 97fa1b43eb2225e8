/** Writes docs/conformance.md. Rows that did not run keep their last result. */
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
  return `# Conformance with real engines

\`npm run conformance\` tests the gateway with real vLLM servers on the CPU, with random weights. The command starts and stops
them. It records their responses in \`test/vectors\`; \`npm test\` replays these against the gateway and the simulated engines.
\`npm run conformance -- --list\` lists the rows. Give names, or prefixes of names, to run some rows only; the others keep their last result.

Requirements: Linux on x86-64 with AVX2, Python 3.11 to 3.13, 7 GB of disk, 12 GB of memory, and the Python package index. The first run
installs packages for about two minutes into \`.cache/conformance\`; each server takes about a minute to start. Tests on the CPU do not
cover the speed of a GPU.
Rows without vLLM need programs that \`bash packages/bench/conformance/build-*.sh\` builds from source; they are skipped if these are missing.
Rows \`agent-*\` and \`client-*\` install agents and clients from npm and PyPI (up to 1 GB) and are skipped if they cannot be fetched.

Versions: ${Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')}.

${results.length - failed} of ${results.length} rows passed.

| row | claim | result | observation | seconds | date |
| --- | --- | --- | --- | ---: | --- |
${lines.join('\n')}
${details.length === 0 ? '' : `\n## Details\n\n${details.join('\n')}`}
## Findings

Unexpected behaviour of these engines:

- If the engine is full after a stream's headers were sent, the stream gets **200 and one error event** with code 503. In a burst this is the usual case.
- \`POST /pause\` ends running streams with \`finish_reason: "abort"\` and a clean \`[DONE]\`. A paused engine looks healthy in \`/health\` and \`/metrics\`; only \`/is_paused\` shows it.
- When the engine core dies, streams end with an error event and then \`[DONE]\`. \`/health\` is 500 for a moment, then the server is gone.
- A repeated prompt of exactly *k* blocks reports *k* - 1 cached blocks: one token must be computed.
- Several tokens may be in one event, all tokens of a choice in its last event, and choices of one request in any order.
- With NIXL, an idle worker process uses half a core, and a body with \`"kv_transfer_params": {"do_remote_prefill": true}\` ends the server.
- \`/tokenize\`, \`/health\` and \`/metrics\` need no key.
- A decode engine that fetches from a dead prefill engine returns **500** after up to 5 s and stays alive. It must be tried again without transfer parameters.
- NIXL's parameters can be used twice. A decode engine reports 0 cached tokens for a fetched prompt, even if it has the blocks.
- Waiting prompts are prefilled in one step and get their first tokens at its end, so a short prompt may wait for a long one that came later.
- An LMCache server whose heartbeat gets 404 registers again at once, so the coordinator may be replaced while engines run. Earlier chunks are not reported again.
- Whisper with \`--enable-prefix-caching\` starts, and **exits at its first request** ("CrossAttentionManager does not support caching"). By default it caches no prefixes.
- Speech: \`response_format=text\` returns JSON; \`srt\` and \`vtt\` return 400; a form without a \`model\` is served by any model; audio needs \`soundfile\`, which only \`vllm[audio]\` installs.
- vLLM 0.32 has no CORS without \`--allowed-origins\`; earlier versions allow all origins.
- On shared cores an engine in the middle of a stream may take 5 s to answer \`/metrics\`.
`
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}
