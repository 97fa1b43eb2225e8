import { rollHash } from '../block-pool.ts'
import { chance } from './chance.ts'
import type { SequenceSpec } from '../sequence.ts'

/** One request in a replay. Times are virtual, in milliseconds. */
export class Job implements SequenceSpec {
  readonly index: number
  readonly request: TraceRequest
  readonly promptTokens: number
  readonly outputTokens: number
  readonly blocks: Uint32Array
  /** The leg that fetches its prompt from another engine. */
  remote = false
  /** The leg whose blocks another engine reads. */
  hold = false
  /** When the client sent it. */
  sentAt = 0
  /** -1: not yet. */
  firstTokenAt = -1
  endedAt = -1
  engine = -1
  cachedTokens = 0
  preemptions = 0
  longestGapMs = 0
  /** TTFT predicted by the policy, if it predicts. */
  predictedTtftMs: number | null = null

  constructor(index: number, request: TraceRequest, outputTokens = request.outputTokens) {
    this.index = index
    this.request = request
    this.promptTokens = request.promptTokens
    this.outputTokens = outputTokens
    this.blocks = request.blocks
  }
}

/** One request of a recorded or generated workload. */
export interface TraceRequest {
  /** Milliseconds since the trace began. */
  readonly atMs: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** Keys of the full prompt blocks, two lanes each. Equal keys mean equal prefixes. */
  readonly blocks: Uint32Array
  /** Session id that the client sends to the gateway; null: none. */
  readonly session: string | null
  /** In a closed loop, the requests of one chain follow each other; null: independent. */
  readonly chain: string | null
  /** Time between the end of the chain's previous answer and this request. */
  readonly thinkMs: number
}

export interface Trace {
  readonly name: string
  readonly blockTokens: number
  /** SHA-256 of the file, in hexadecimal. Absent: not from a file. */
  readonly sha256?: string
  /** In order of time. */
  readonly requests: readonly TraceRequest[]
}

/** Invalid line of a trace. The message has the line and the cause. */
export class TraceError extends Error {
  readonly line: number
  readonly problem: string

  constructor(line: number, problem: string) {
    super(`line ${line} of the trace ${problem}`)
    this.name = 'TraceError'
    this.line = line
    this.problem = problem
  }
}

/** Mooncake's block size. A row may have at most as many ids as its length fills. */
export const TRACE_BLOCK_TOKENS = 512

interface Row {
  readonly timestamp: number
  readonly input_length: number
  readonly output_length: number
  readonly hash_ids: readonly number[]
  readonly session_id?: string
  readonly think_ms?: number
  readonly block_tokens?: number
}

/**
 * Reads Mooncake's schema, one JSON object per line: `timestamp` (ms), `input_length`, `output_length`, `hash_ids`;
 * optionally `session_id`, `think_ms`, and in the first line `block_tokens` for blocks other than 512. Throws a
 * TraceError for an invalid line.
 */
export function readTrace(
  name: string,
  text: string,
  options: { readonly limit?: number; readonly blockTokens?: number } = {},
): Trace {
  const { limit = Infinity } = options
  let { blockTokens } = options
  const requests: TraceRequest[] = []
  let line = 0
  for (let from = 0; from < text.length && requests.length < limit;) {
    const end = text.indexOf('\n', from)
    const piece = text.slice(from, end === -1 ? text.length : end).trim()
    from = end === -1 ? text.length : end + 1
    line += 1
    if (piece === '') continue
    const row = rowOf(piece, line)
    blockTokens ??= row.block_tokens ?? TRACE_BLOCK_TOKENS
    requests.push(requestOf(row, blockTokens))
  }
  requests.sort((one, other) => one.atMs - other.atMs)
  const start = requests[0]?.atMs ?? 0
  return {
    name,
    blockTokens: blockTokens ?? TRACE_BLOCK_TOKENS,
    requests: requests.map((request) => ({ ...request, atMs: request.atMs - start })),
  }
}

/** Parses one line as an object. Throws a TraceError. */
export function objectIn(text: string, line: number): object {
  let row: unknown
  try {
    row = JSON.parse(text)
  } catch {
    throw new TraceError(line, 'is not JSON')
  }
  if (typeof row !== 'object' || row === null) throw new TraceError(line, 'is not an object')
  return row
}

function rowOf(text: string, line: number): Row {
  const row = objectIn(text, line) as Partial<Row>
  for (const field of ['timestamp', 'input_length', 'output_length'] as const) {
    const value = row[field]
    if (typeof value !== 'number' || !Number.isFinite(value) || value < 0)
      throw new TraceError(line, `has ${field} ${JSON.stringify(value)}; must be a non-negative number`)
  }
  if (!Array.isArray(row.hash_ids) || row.hash_ids.some((id) => typeof id !== 'number'))
    throw new TraceError(line, 'has no list of numbers `hash_ids`')
  if (row.block_tokens !== undefined && !(Number.isInteger(row.block_tokens) && row.block_tokens >= 1))
    throw new TraceError(line, `has block_tokens ${JSON.stringify(row.block_tokens)}; must be an integer above 0`)
  if (row.session_id !== undefined && typeof row.session_id !== 'string')
    throw new TraceError(line, 'has a session_id that is not a string')
  return row as Row
}

function requestOf(row: Row, blockTokens: number): TraceRequest {
  const promptTokens = Math.max(1, Math.floor(row.input_length))
  const full = Math.min(row.hash_ids.length, Math.floor(promptTokens / blockTokens))
  return {
    atMs: row.timestamp,
    promptTokens,
    outputTokens: Math.max(1, Math.floor(row.output_length)),
    blocks: keysOf(row.hash_ids.slice(0, full)),
    session: row.session_id ?? null,
    chain: row.session_id ?? null,
    thinkMs: typeof row.think_ms === 'number' && row.think_ms > 0 ? row.think_ms : 0,
  }
}

/** Ids identify whole prefixes, so a key need not be chained. Lanes are mixed because hash tables use them directly. */
export function keysOf(ids: readonly number[]): Uint32Array {
  const keys = new Uint32Array(ids.length * 2)
  ids.forEach((id, at) => {
    const high = Math.floor(id / 2 ** 32)
    keys[at * 2] = rollHash(0x5bd1_e995 ^ high, id)
    keys[at * 2 + 1] = rollHash(0x1234_5678 ^ high, id)
  })
  return keys
}

/**
 * Spreads requests with equal timestamps randomly over the trace's tick (Mooncake's clock ticks every 3 s). Traces
 * with a fine clock are shifted, session by session, by up to the mean gap between sessions, so that seeds differ.
 */
export function spread(trace: Trace, seed: number): Trace {
  const random = chance(seed)
  const tickMs = tickOf(trace)
  const { requests } = trace
  const spanMs = requests.at(-1)?.atMs ?? 0
  const chains = new Map<string, number>()
  const groups = new Set(requests.map((request, at) => request.chain ?? String(at))).size
  const moved = requests.map((request) => {
    if (tickMs > 0) return { ...request, atMs: request.atMs + random() * tickMs }
    const shiftMs =
      (request.chain === null ? undefined : chains.get(request.chain)) ?? (random() * spanMs) / Math.max(1, groups)
    if (request.chain !== null) chains.set(request.chain, shiftMs)
    return { ...request, atMs: request.atMs + shiftMs }
  })
  return { ...trace, requests: moved.sort((one, other) => one.atMs - other.atMs) }
}

/** The smallest gap between two timestamps if several requests share one; 0: the clock is fine enough. */
function tickOf({ requests }: Trace): number {
  let least = Infinity
  let shared = 0
  for (let at = 1; at < requests.length; at += 1) {
    const gap = requests[at]!.atMs - requests[at - 1]!.atMs
    if (gap === 0) shared += 1
    else least = Math.min(least, gap)
  }
  return shared * 10 > requests.length && least < Infinity ? least : 0
}

/** Requests per second over the whole trace. */
export function meanRate({ requests }: Trace): number {
  const spanS = ((requests.at(-1)?.atMs ?? 0) - (requests[0]?.atMs ?? 0)) / 1000
  return spanS > 0 ? requests.length / spanS : requests.length
}

/*
 * Reads public traces in formats other than Mooncake's: Azure, BurstGPT, ShareGPT and results of `vllm bench serve`.
 */

/** One request of a trace that has lengths and no text. */
interface Sized {
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
  if (!start.startsWith('{') || !text.includes('"input_lens"')) return null
  return sized(name, benchRows(text), limit)
}

function sized(name: string, rows: readonly Sized[], limit: number): Trace {
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
function rowsOf(text: string, limit: number): Sized[] {
  const lines = text.split(/\r?\n/)
  const names = lines[0]!.split(',').map((word) => word.trim().toLowerCase())
  const columnOf = (known: readonly string[], what: string) => {
    const at = names.findIndex((word) => known.includes(word))
    if (at < 0) throw new TraceError(1, `has no column for ${what}: ${known.join(' or ')}`)
    return at
  }
  const [promptAt, outputAt] = [columnOf(PROMPT, 'prompt tokens'), columnOf(OUTPUT, 'output tokens')]
  const rows: Sized[] = []
  for (const [at, line] of lines.entries()) {
    if (at === 0 || line.trim() === '') continue
    if (rows.length >= limit) break
    const cells = line.split(',')
    const atMs = timeOf(cells[0]!.trim())
    const [promptTokens, outputTokens] = [Number(cells[promptAt]), Number(cells[outputAt])]
    if (!Number.isFinite(atMs)) throw new TraceError(at + 1, `has timestamp "${cells[0]}"; must be seconds or a date`)
    if (!(promptTokens >= 0 && outputTokens >= 0)) throw new TraceError(at + 1, 'has token counts that are no numbers')
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

function benchRows(text: string): Sized[] {
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
  } catch {
    throw new TraceError(1, 'is not JSON')
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
