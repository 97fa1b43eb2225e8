/** Reads public traces in other formats than Mooncake's, and results of `vllm bench serve`. */
import { rollHash } from '../../../simulator/src/block-keys.ts'
import { bailianTrace } from './bailian.ts'
import { TraceError } from './trace-error.ts'
import { objectLines } from './trace-lines.ts'
import { keysOf, type Trace, TRACE_BLOCK_TOKENS, type TraceRequest } from './trace.ts'
import { type WekaLine, wekaTrace } from './weka.ts'

/** One request of a trace that has lengths and no text. */
interface SizedRequest {
  readonly atMs: number
  readonly promptTokens: number
  readonly outputTokens: number
}

/**
 * Reads a trace in one of the other formats, detected by its content. null: another format. Throws a TraceError for an
 * invalid line. Azure, BurstGPT and vLLM traces have no text, so no two prompts share a prefix.
 */
export function importTrace(name: string, text: string, { limit = Infinity } = {}): Trace | null {
  const start = text.slice(0, 4096).trimStart()
  const head = start.split('\n', 1)[0]!.trim()
  if (/^timestamp,/i.test(head)) return sized(name, rowsOf(text, limit), limit)
  if (start.startsWith('[')) return conversations(name, text, limit)
  if (!start.startsWith('{')) return null
  if (text.includes('"input_lens"')) return sized(name, benchRows(text), limit)
  const end = text.trimStart().indexOf('\n')
  const first = end < 0 ? text : text.trimStart().slice(0, end)
  if (/"chat_id"\s*:/.test(first)) return bailianTrace(name, text, limit)
  const isWeka = /"block_size"\s*:/.test(first) || /"block_size"\s*:/.test(start)
  return isWeka ? wekaTrace(name, sessionsIn(text, first), limit) : null
}

/** Sessions of a file with one per line, or with a single one on many lines. */
function sessionsIn(text: string, first: string): WekaLine[] {
  const rows = first.trimEnd().endsWith('}') ? [...objectLines(text)] : [{ row: parsed(text), line: 1 }]
  return rows as WekaLine[]
}

function sized(name: string, rows: readonly SizedRequest[], limit: number): Trace {
  const sorted = rows.toSorted((one, other) => one.atMs - other.atMs).slice(0, limit)
  const firstMs = sorted[0]?.atMs ?? 0
  let id = 0
  return {
    name,
    blockTokens: TRACE_BLOCK_TOKENS,
    requests: sorted.map(({ atMs, promptTokens, outputTokens }) => ({
      ...ALONE,
      atMs: atMs - firstMs,
      promptTokens: Math.max(1, promptTokens),
      outputTokens: Math.max(1, outputTokens),
      blocks: keysOf(Array.from({ length: Math.floor(promptTokens / TRACE_BLOCK_TOKENS) }, () => id++)),
    })),
  }
}

const ALONE = { session: null, chain: null, thinkMs: 0 } as const

/** Columns by lower-case name. Azure: ContextTokens, GeneratedTokens. BurstGPT: Request tokens, Response tokens. */
const PROMPT = ['contexttokens', 'request tokens']

const OUTPUT = ['generatedtokens', 'response tokens']

/** Rows of a CSV file of Azure or BurstGPT. Failed requests of BurstGPT have no response tokens and are left out. */
function rowsOf(text: string, limit: number): SizedRequest[] {
  const lines = text.split(/\r?\n/)
  const names = lines[0]!.split(',').map((word) => word.trim().toLowerCase())
  const columnOf = (known: readonly string[], what: string) => {
    const at = names.findIndex((word) => known.includes(word))
    if (at < 0) throw new TraceError(1, `has no column for ${what}: ${known.join(' or ')}`)
    return at
  }
  const [promptAt, outputAt] = [columnOf(PROMPT, 'prompt tokens'), columnOf(OUTPUT, 'output tokens')]
  const rows: SizedRequest[] = []
  for (const [at, line] of lines.entries()) {
    if (at === 0 || line.trim() === '') continue
    if (rows.length >= limit) break
    const cells = line.split(',')
    const atMs = timeOf(cells[0]!.trim())
    const [promptTokens, outputTokens] = [Number(cells[promptAt]), Number(cells[outputAt])]
    if (!Number.isFinite(atMs)) throw new TraceError(at + 1, `has timestamp "${cells[0]}"; must be seconds or a date`)
    if (!(promptTokens >= 0 && outputTokens >= 0)) throw new TraceError(at + 1, 'has token counts that are not numbers')
    if (outputTokens > 0) rows.push({ atMs, promptTokens, outputTokens })
  }
  return rows
}

/** Milliseconds of a number of seconds (BurstGPT) or of a date with up to seven decimal places (Azure). */
function timeOf(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000
  const [, date, time, fraction = '', zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)?$/.exec(text) ?? []
  return Date.parse(`${date}T${time}${zone}`) + Number(`0${fraction}`) * 1000
}

/** Result file of `vllm bench serve --save-result --save-detailed`. */
interface Bench {
  readonly input_lens: readonly number[]
  readonly output_lens: readonly number[]
  /** Seconds. Absent in older versions. */
  readonly start_times?: readonly number[]
  /** Requests per second; "inf": all at once. */
  readonly request_rate?: number | string
}

function benchRows(text: string): SizedRequest[] {
  const bench = parsed(text) as Partial<Bench>
  const { input_lens: inputs, output_lens: outputs, start_times: starts, request_rate: rate } = bench
  if (!isNumbers(inputs) || !isNumbers(outputs) || (starts !== undefined && !isNumbers(starts)))
    throw new TraceError(1, 'has no lists of numbers `input_lens` and `output_lens`; use --save-detailed')
  const gapMs = Number(rate) > 0 ? 1000 / Number(rate) : 0
  return inputs.map((promptTokens, at) => ({
    atMs: starts === undefined ? at * gapMs : (starts[at] ?? 0) * 1000,
    promptTokens,
    outputTokens: outputs[at] ?? 1,
  }))
}

const isNumbers = (value: unknown): value is readonly number[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'number' && one >= 0)

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    // V8 names the place in a text of several lines.
    throw new TraceError(Number(/\(line (\d+) /.exec(String(error))?.[1] ?? 1), 'is not JSON')
  }
}

/** ShareGPT has no times: one conversation starts per second, and users think for 10 s. `--load` sets the pace. */
const START_MS = 1000

const THINK_MS = 10_000

/** ShareGPT has text and no tokens: English has about 4 characters per token. */
const TOKEN_CHARACTERS = 4

const TEXT_BLOCK_TOKENS = 16

interface Message {
  readonly from?: string
  readonly value?: string
}

/** Requests of ShareGPT conversations. Each turn sends the conversation so far, so its prefix is shared. */
function conversations(name: string, text: string, limit: number): Trace {
  const list = parsed(text) as readonly { readonly conversations?: readonly Message[] }[]
  const requests: TraceRequest[] = []
  for (const [at, entry] of list.entries()) {
    if (requests.length >= limit) break
    const messages = entry?.conversations
    if (!Array.isArray(messages)) throw new TraceError(1, `has no list \`conversations\` in element ${at}`)
    requests.push(...turnsOf(messages, at))
  }
  return {
    name,
    blockTokens: TEXT_BLOCK_TOKENS,
    requests: requests.slice(0, limit).toSorted((one, other) => one.atMs - other.atMs),
  }
}

function turnsOf(messages: readonly Message[], at: number): TraceRequest[] {
  const turns: TraceRequest[] = []
  let prompt = ''
  for (const { from, value = '' } of messages) {
    const isAnswer = from === 'gpt' || from === 'chatgpt' || from === 'bing' || from === 'bard'
    if (isAnswer && prompt !== '')
      turns.push({
        atMs: at * START_MS + turns.length * THINK_MS,
        promptTokens: tokensIn(prompt),
        outputTokens: tokensIn(value),
        blocks: blocksOf(prompt),
        session: `conversation-${at}`,
        chain: `conversation-${at}`,
        thinkMs: turns.length === 0 ? 0 : THINK_MS,
      })
    prompt += value
  }
  return turns
}

const tokensIn = (text: string): number => Math.max(1, Math.ceil(text.length / TOKEN_CHARACTERS))

/** Two lanes per full block, chained: equal keys mean equal text up to the end of the block. */
function blocksOf(text: string): Uint32Array {
  const size = TEXT_BLOCK_TOKENS * TOKEN_CHARACTERS
  const keys = new Uint32Array(2 * Math.floor(text.length / size))
  let [one, other] = [0x5bd1_e995, 0x1234_5678]
  for (let at = 0; at < (keys.length / 2) * size; at += 1) {
    one = rollHash(one, text.charCodeAt(at))
    other = rollHash(other, text.charCodeAt(at))
    if ((at + 1) % size === 0) keys.set([one, other], 2 * ((at + 1) / size - 1))
  }
  return keys
}
