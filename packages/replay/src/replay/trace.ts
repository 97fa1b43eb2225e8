import { rollHash } from '../../../simulator/src/block-keys.ts'
import { AiperfSessions } from './aiperf-sessions.ts'
import { chance } from './chance.ts'
import { TraceError } from './trace-error.ts'
import { objectLines } from './trace-lines.ts'
import type { TraceRow } from './trace-row.ts'

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

/** Mooncake's block size. A row may have at most as many ids as its length fills. */
export const TRACE_BLOCK_TOKENS = 512

/**
 * Reads Mooncake's schema, one JSON object per line: `timestamp` (ms), `input_length`, `output_length`, `hash_ids`;
 * optionally `session_id`, `think_ms`, and in the first line `block_tokens` for blocks other than 512. The later
 * requests of a session in AIPerf's `mooncake_trace` have a `delay` (ms) instead of `timestamp`, and only their new
 * tokens. Throws a TraceError for an invalid line.
 */
export function readTrace(
  name: string,
  text: string,
  options: { readonly limit?: number; readonly blockTokens?: number } = {},
): Trace {
  const { limit = Infinity } = options
  let { blockTokens } = options
  const requests: TraceRequest[] = []
  const sessions = new AiperfSessions()
  for (const { row: given, line } of objectLines(text)) {
    const row = checked(sessions.timed(given, line), line)
    blockTokens ??= row.block_tokens ?? TRACE_BLOCK_TOKENS
    const isTimed = (given as Partial<TraceRow>).timestamp !== undefined
    requests.push(requestOf(sessions.completed(row, { line, isTimed, blockTokens }), blockTokens))
    if (requests.length >= limit) break
  }
  requests.sort((one, other) => one.atMs - other.atMs)
  const start = requests[0]?.atMs ?? 0
  return {
    name,
    blockTokens: blockTokens ?? TRACE_BLOCK_TOKENS,
    requests: requests.map((request) => ({ ...request, atMs: request.atMs - start })),
  }
}

function checked(row: Partial<TraceRow>, line: number): TraceRow {
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
  return row as TraceRow
}

function requestOf(row: TraceRow, blockTokens: number): TraceRequest {
  const promptTokens = Math.max(1, Math.floor(row.input_length))
  const full = Math.min(row.hash_ids.length, Math.floor(promptTokens / blockTokens))
  return {
    atMs: row.timestamp,
    promptTokens,
    outputTokens: Math.max(1, Math.floor(row.output_length)),
    blocks: keysOf(row.hash_ids.slice(0, full)),
    session: row.session_id ?? null,
    chain: row.session_id ?? null,
    thinkMs: Math.max(0, Number(row.think_ms ?? row.delay ?? 0) || 0),
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
  let min = Infinity
  let shared = 0
  for (let at = 1; at < requests.length; at += 1) {
    const gap = requests[at]!.atMs - requests[at - 1]!.atMs
    if (gap === 0) shared += 1
    else min = Math.min(min, gap)
  }
  return shared * 10 > requests.length && min < Infinity ? min : 0
}

/** Requests per second over the whole trace. */
export function meanRate({ requests }: Trace): number {
  const spanS = ((requests.at(-1)?.atMs ?? 0) - (requests[0]?.atMs ?? 0)) / 1000
  return spanS > 0 ? requests.length / spanS : requests.length
}
