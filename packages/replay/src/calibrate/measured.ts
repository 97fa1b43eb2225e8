import { TraceError } from '../replay/trace-error.ts'
import { objectIn } from '../replay/trace-lines.ts'
import type { Trace, TraceRequest } from '../replay/trace.ts'

/** One request as a real server served it. Seconds of one clock. */
export interface MeasuredRequest {
  readonly promptTokens: number
  readonly outputTokens: number
  readonly queuedAt: number
  readonly firstTokenAt: number
  readonly lastTokenAt: number
}

interface Row {
  readonly input_toks: number
  readonly output_toks: number
  readonly queued_ts: number
  readonly first_token_ts: number
  readonly last_token_ts: number
}

const FIELDS = ['input_toks', 'output_toks', 'queued_ts', 'first_token_ts', 'last_token_ts'] as const

/**
 * Reads a measurement, one JSON object per line: `input_toks`, `output_toks`, `queued_ts`, `first_token_ts`,
 * `last_token_ts` (seconds). Returns it in order of arrival. Throws a TraceError for an invalid line.
 */
export function readMeasured(text: string): MeasuredRequest[] {
  const rows = text.split('\n').flatMap((line, at) => (line.trim() === '' ? [] : [rowOf(line, at + 1)]))
  return rows
    .map((row) => ({
      promptTokens: row.input_toks,
      outputTokens: row.output_toks,
      queuedAt: row.queued_ts,
      firstTokenAt: row.first_token_ts,
      lastTokenAt: row.last_token_ts,
    }))
    .sort((one, other) => one.queuedAt - other.queuedAt)
}

function rowOf(text: string, line: number): Row {
  const row = objectIn(text, line) as Partial<Row>
  const missing = FIELDS.find((field) => typeof row[field] !== 'number')
  if (missing !== undefined) throw new TraceError(line, `has no number \`${missing}\``)
  if (
    !(
      row.input_toks! >= 1 &&
      row.output_toks! >= 1 &&
      row.first_token_ts! >= row.queued_ts! &&
      row.last_token_ts! >= row.first_token_ts!
    )
  )
    throw new TraceError(line, 'has times out of order or no tokens')
  return row as Row
}

/** Converts a measurement to a trace. Shared prefixes are unknown. */
export function traceOf(name: string, measured: readonly MeasuredRequest[], blockTokens: number): Trace {
  const start = measured[0]?.queuedAt ?? 0
  const requests = measured.map(({ promptTokens, outputTokens, queuedAt }): TraceRequest => ({
    atMs: (queuedAt - start) * 1000,
    promptTokens,
    outputTokens,
    blocks: new Uint32Array(0),
    session: null,
    chain: null,
    thinkMs: 0,
  }))
  return { name, blockTokens, requests }
}
