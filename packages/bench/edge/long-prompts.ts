/**
 * What a prompt of 100,000 tokens costs a Worker that counts them exactly: the first one of an isolate, and later
 * ones.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { cpuSeconds, type StartedProcess } from '../proxy/processes.ts'
import { readCorpus } from '../token-lab/corpus.ts'
import { trainTokenizer } from '../token-lab/train-bpe.ts'

export type Start = (file: string, args: readonly string[]) => Promise<StartedProcess>

/** About 100,000 tokens of the vocabulary trained below. */
const CHARS = 450_000
const MERGES = 40_000
const LATER = 20

export function longPrompts(
  start: Start,
  engines: readonly string[],
): Promise<Record<'cpu_ms_100k_tokens_first' | 'cpu_ms_100k_tokens' | 'cpu_ms_100k_tokens_in_bytes', number>> {
  return withVocabulary(async (text) => {
    const exact = await costs(await start('../edge/host.ts', ['exact', ...engines]), text)
    const bytes = await costs(await start('../edge/host.ts', ['native', ...engines]), text)
    return {
      cpu_ms_100k_tokens_first: exact.first,
      cpu_ms_100k_tokens: exact.later,
      cpu_ms_100k_tokens_in_bytes: bytes.later,
    }
  })
}

/** Trains a vocabulary, which VOCABULARY names meanwhile. `use` gets other text. */
export async function withVocabulary<Result>(use: (text: string) => Promise<Result>): Promise<Result> {
  const corpus = readCorpus(new URL('../../../node_modules/', import.meta.url), CHARS)
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-edge-'))
  try {
    process.env['VOCABULARY'] = join(folder, 'bench.vocab')
    const compiled = compileVocabulary({
      tokenizer: trainTokenizer(corpus.training, MERGES),
      template: null,
      specials: {},
    })
    writeFileSync(process.env['VOCABULARY'], gzipSync(compiled, { level: 9 }))
    return await use(corpus.heldOut)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * CPU of the first request and, as a mean, of later ones: ms. Each prompt begins at another place of the text, so that
 * no cache of prompts knows it.
 */
async function costs(
  { port, pid }: StartedProcess,
  text: string,
): Promise<{ readonly first: number; readonly later: number }> {
  const ask = (at: number): Promise<void> => {
    const offset = Math.floor(text.length * at)
    return complete(port, text.slice(offset) + text.slice(0, offset))
  }
  const msSince = (seconds: number) => (cpuSeconds(pid) - seconds) * 1000
  const start = cpuSeconds(pid)
  await ask(0)
  const first = msSince(start)
  const warm = cpuSeconds(pid)
  for (let i = 1; i <= LATER; i++) await ask(i / (LATER + 1))
  return { first, later: msSince(warm) / LATER }
}

export async function complete(port: number, prompt: string): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'fake', stream: true, prompt }),
  })
  await response.text()
  if (response.status !== 200) throw new Error(`a prompt was answered ${response.status}`)
}
