import { TraceError } from './trace-error.ts'
import type { TraceRow } from './trace-row.ts'

/**
 * What a row of a session has, as AIPerf names it: the whole prompt, or the tokens that come after the previous prompt
 * and its answer, or after a previous prompt that has the answer.
 */
const MODES = ['message_array_with_responses', 'deltas_without_responses', 'deltas_with_responses'] as const

type ContextMode = (typeof MODES)[number]

interface Turn {
  readonly atMs: number
  readonly promptTokens: number
  readonly outputTokens: number
  readonly ids: readonly number[]
}

/** Rows of AIPerf's `mooncake_trace`, whose later turns have a `delay` and only their new tokens. */
export class AiperfSessions {
  readonly #turns = new Map<string, Turn>()
  /** The last id of a block that no other session has. Files have no negative ids. */
  #lastOwnId = 0

  /** The time of the row, and its ids if it may have none. Throws a TraceError. */
  timed(row: Partial<TraceRow>, line: number): Partial<TraceRow> {
    if (row.timestamp !== undefined) return row
    const { delay, session_id: session } = row
    if (delay !== undefined && !(typeof delay === 'number' && delay >= 0))
      throw new TraceError(line, `has delay ${JSON.stringify(delay)}; must be a non-negative number`)
    if (typeof session !== 'string') return row
    const before = this.#turns.get(session)
    if (before === undefined && delay !== undefined)
      throw new TraceError(line, 'has a delay and no timestamp, but is the first request of its session_id')
    return { hash_ids: [], ...row, timestamp: (before?.atMs ?? 0) + (delay ?? 0) }
  }

  /** The row with its whole prompt. @param isTimed whether the row itself has a timestamp */
  completed(row: TraceRow, place: { readonly line: number; readonly isTimed: boolean; readonly blockTokens: number }) {
    const { session_id: session } = row
    if (session === undefined) return row
    const mode = modeOf(row, place)
    const before = this.#turns.get(session)
    const whole = before === undefined || mode === MODES[0] ? row : this.#after(before, row, mode, place.blockTokens)
    const { timestamp: atMs, input_length: promptTokens, output_length: outputTokens, hash_ids: ids } = whole
    this.#turns.set(session, { atMs, promptTokens, outputTokens, ids })
    return whole
  }

  /** Blocks after the first prompt are the session's own: no other one has the same answers before them. */
  #after(before: Turn, row: TraceRow, mode: ContextMode, blockTokens: number): TraceRow {
    const answerTokens = mode === 'deltas_without_responses' ? before.outputTokens : 0
    const promptTokens = before.promptTokens + answerTokens + row.input_length
    const ids = before.ids.slice(0, Math.floor(before.promptTokens / blockTokens))
    while (ids.length < Math.floor(promptTokens / blockTokens)) ids.push((this.#lastOwnId -= 1))
    return { ...row, input_length: promptTokens, hash_ids: ids }
  }
}

function modeOf(
  { context_mode: given }: TraceRow,
  { line, isTimed }: { readonly line: number; readonly isTimed: boolean },
): ContextMode {
  const mode = MODES.find((one) => one === given)
  if (given !== undefined && mode === undefined)
    throw new TraceError(line, `has context_mode ${JSON.stringify(given)}; must be ${MODES.join(', ')}`)
  return mode ?? (isTimed ? 'message_array_with_responses' : 'deltas_without_responses')
}
