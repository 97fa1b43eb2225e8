/**
 * Cost of counting a prompt's tokens, compared with @huggingface/tokenizers in the same run, and whether the ids are
 * equal.
 * `--vocab FILE` takes a tokenizer.json; without it a vocabulary is trained here (some seconds).
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { Tokenizer } from '@huggingface/tokenizers'
import type { JsonObject } from '../../src/core/json.ts'
import { chat } from '../../src/protocols/chat.ts'
import { PieceTokenizer } from '../../src/core/tokens/piece-tokenizer.ts'
import { compileVocabulary } from '../../src/core/tokens/compile-vocabulary.ts'
import { IdBuffer } from '../../src/core/tokens/id-buffer.ts'
import { PromptAnalyzer } from '../../src/core/tokens/prompt-analyzer.ts'
import { Vocabulary } from '../../src/core/tokens/vocabulary.ts'
import { compileTemplate } from '../../src/chat-template.ts'
import { median } from './median.ts'
import type { Bench, BenchRow } from './result.ts'
import { oddStrings, randomOf, readCorpus } from './token-lab/corpus.ts'
import { trainTokenizer } from './token-lab/train-bpe.ts'

const CHARS = 450_000
const MERGES = 40_000
const utf8 = new TextEncoder()
const encodeUtf8 = (text: string, into: Uint8Array): number => utf8.encodeInto(text, into).written
const chatml =
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{% if " +
  "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

const bench: Bench = async ({ flags, note }) => {
  const corpus = readCorpus(new URL('../../node_modules/', import.meta.url), CHARS)
  if (flags.vocab === undefined) note(`training ${MERGES} merges …`)
  const json =
    typeof flags.vocab === 'string'
      ? (JSON.parse(readFileSync(flags.vocab, 'utf8')) as unknown)
      : trainTokenizer(corpus.training, MERGES)
  const compiled = compileVocabulary({ tokenizer: json, template: null, specials: {} })
  const vocabulary = new Vocabulary(compiled)
  note('first calls, each in a process of its own …')
  const first = firstCalls(json, compiled, corpus.heldOut)
  const reference = new Tokenizer(json as object, {})
  note('warm …')
  const warm = warmCalls(vocabulary, reference, corpus.heldOut)
  note('comparing ids …')
  const mismatches = compareIds(vocabulary, reference, corpus.heldOut)
  const rows: BenchRow[] = [
    ...first.rows,
    ...warm.rows,
    ...conversation(vocabulary, corpus.heldOut),
    ...withoutSplit(vocabulary),
    {
      what: `compiled vocabulary, ${vocabulary.size} ids, gzipped bytes`,
      ours: gzipSync(compiled, { level: 9 }).length,
    },
  ]
  return { rows, headline: { ms_per_100k: first.msPer100k, speedup_vs_hf: warm.speedup, mismatches } }
}
export default bench

const ms = (value: number): number => Math.round(value * 100) / 100

function firstCalls(json: unknown, compiled: Uint8Array, text: string): { rows: BenchRow[]; msPer100k: number } {
  const folder = mkdtempSync(join(tmpdir(), 'tokens-'))
  const files = {
    ours: join(folder, 'compiled.vocab'),
    unwarmed: join(folder, 'compiled.vocab'),
    theirs: join(folder, 'tokenizer.json'),
    text: join(folder, 'text'),
  }
  writeFileSync(files.ours, gzipSync(compiled, { level: 9 }))
  writeFileSync(files.theirs, JSON.stringify(json))
  writeFileSync(files.text, text)
  const script = new URL('token-lab/first-call.ts', import.meta.url).pathname
  const run = (who: 'ours' | 'unwarmed' | 'theirs'): { load_ms: number; encode_ms: number; tokens: number } =>
    JSON.parse(execFileSync(process.execPath, [script, who, files[who], files.text], { encoding: 'utf8' })) as never
  try {
    const ours = Array.from({ length: 5 }, () => run('ours'))
    const unwarmed = Array.from({ length: 5 }, () => run('unwarmed'))
    const theirs = Array.from({ length: 3 }, () => run('theirs'))
    const per100k = (runs: typeof ours): number => median(runs.map((one) => (one.encode_ms / one.tokens) * 1e5))
    const row = (what: string, of: (runs: typeof ours) => number): BenchRow => ({
      what,
      ours: ms(of(ours)),
      hf: ms(of(theirs)),
      ratio: ms(of(theirs) / of(ours)),
    })
    return {
      rows: [
        row('load, ms (ours: with the warm-up that Node has)', (runs) => median(runs.map((one) => one.load_ms))),
        row('first call of a process, ms per 100k tokens', per100k),
        { what: 'first call without the warm-up, as on Workers, ms per 100k tokens', ours: ms(per100k(unwarmed)) },
      ],
      msPer100k: ms(per100k(ours)),
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Empty caches each time, so that every token is computed; only the machine code is warm. */
function warmCalls(vocabulary: Vocabulary, reference: Tokenizer, text: string): { rows: BenchRow[]; speedup: number } {
  const out = new IdBuffer()
  const ours: number[] = []
  const theirs: number[] = []
  for (let i = 0; i < 9; i++) {
    const tokenizer = new PieceTokenizer({ vocabulary, encodeUtf8 })
    out.clear()
    ours.push(timed(() => tokenizer.encode(text, false, out)))
    if (i % 2 === 0) theirs.push(timed(() => reference.encode(text, { add_special_tokens: false })))
  }
  const scale = 1e5 / out.length
  const speedup = ms(median(theirs) / median(ours))
  return {
    rows: [
      {
        what: 'warm code, empty caches, ms per 100k tokens',
        ours: ms(median(ours) * scale),
        hf: ms(median(theirs) * scale),
        ratio: speedup,
      },
    ],
    speedup,
  }
}

function timed(work: () => unknown): number {
  const start = performance.now()
  work()
  return performance.now() - start
}

function compareIds(vocabulary: Vocabulary, reference: Tokenizer, text: string): number {
  const tokenizer = new PieceTokenizer({ vocabulary, encodeUtf8 })
  const out = new IdBuffer()
  const stretches = Array.from({ length: Math.ceil(text.length / 5000) }, (_, i) =>
    text.slice(i * 5000, (i + 1) * 5000).replace(/[\ufeff\ud800-\udfff]/g, ''),
  )
  let mismatches = 0
  for (const sample of [...stretches, ...oddStrings(5000)]) {
    out.clear()
    tokenizer.encode(sample, false, out)
    const expected = reference.encode(sample, { add_special_tokens: false }).ids
    if (expected.length !== out.length || expected.some((id: number, i: number) => id !== out.ids[i])) mismatches++
  }
  return mismatches
}

/** Turns of a long conversation: each request contains all of it, and only the last message is new. */
function conversation(vocabulary: Vocabulary, text: string): BenchRow[] {
  const messages = Array.from({ length: 100 }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: text.slice(i * 4400, (i + 1) * 4400),
  }))
  const options = { model: 'm', blockTokens: 64, encodeUtf8, now: () => performance.now() }
  const measurers = {
    exact: new PromptAnalyzer({
      ...options,
      tokenizer: new PieceTokenizer({ vocabulary, encodeUtf8 }),
      template: compileTemplate(chatml, {}),
    }),
    bytes: new PromptAnalyzer({ ...options, tokenizer: null, template: null }),
  }
  return (['exact', 'bytes'] as const).map((how) => {
    const times = Array.from({ length: 50 }, (_, turn) => {
      const body = JSON.stringify({ messages: messages.slice(0, 50 + turn) })
      const json = JSON.parse(body) as JsonObject
      const request = {
        bodyBytes: body.length,
        adapter: null,
        salts: [],
        tenant: null,
      } as const
      return timed(() => measurers[how].measure({ ...request, prompt: chat.prompt(json) }))
    })
    return {
      what: `turn of a 50 to 100 message conversation (${how}: template, ids or bytes, hashes), ms`,
      ours: ms(median(times.slice(10))),
    }
  })
}

const madeOf = (of: () => number): string => String.fromCodePoint(...Array.from({ length: 20_000 }, of))

function withoutSplit(vocabulary: Vocabulary): BenchRow[] {
  const random = randomOf(4)
  const kinds = {
    'one letter': madeOf(() => 0x61),
    'random letters': madeOf(() => 0x61 + Math.floor(random() * 26)),
    blanks: madeOf(() => 0x20),
    'equal signs': madeOf(() => 0x3d),
    Han: madeOf(() => 0x4e00 + Math.floor(random() * 20_000)),
  }
  return Object.entries(kinds).map(([kind, text]) => {
    const out = new IdBuffer()
    const time = median(
      Array.from({ length: 3 }, () =>
        timed(() => new PieceTokenizer({ vocabulary, encodeUtf8 }).encode(text, false, out)),
      ),
    )
    return { what: `20,000 characters without a split, ${kind}, ms`, ours: ms(time) }
  })
}
