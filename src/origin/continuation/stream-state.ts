import type { Continuable, NotContinued } from '../../core/continuation/continuable.ts'
import type { OutputRecord } from '../../core/continuation/output-record.ts'
import { SentDeltas } from '../../core/continuation/sent-deltas.ts'
import type { Usage } from '../../core/contract/outcome.ts'
import type { CompletionForm } from '../../protocols/completion-form.ts'
import { GAVE_UP } from '../../protocols/stream/event.ts'
import type { Chunk } from '../../protocols/read-chunk.ts'
import type { ResponseHead } from './output-chunk.ts'

/** State of a stream over all engines that contribute to it. */
export interface StreamState {
  readonly request: Continuable
  /** Writes chunks in the client's protocol. */
  readonly form: CompletionForm
  readonly record: OutputRecord
  /** What the client has of each field; null: the request cannot be repeated. */
  readonly deltas: SentDeltas | null
  head: ResponseHead | null
  /** Why it cannot be continued from here; null: it can. */
  barrier: NotContinued | null
  /** The client has output. Before, the request itself can be sent again. */
  hasOutput: boolean
  /** Another engine has continued it by ids, so the request repeated is another stream. */
  byIds: boolean
  /** The client has the finish reason. */
  finished: boolean
  /** The client has `[DONE]`. */
  done: boolean
  /** Usage of the whole output; null: not known yet. */
  usage: Usage | null
  /** Prompt tokens by the first engine's usage or ids; null: unknown. */
  promptTokens: number | null
}

export const newState = (request: Continuable, form: CompletionForm, record: OutputRecord): StreamState => ({
  request,
  form,
  record,
  deltas: request.repeats ? new SentDeltas() : null,
  head: null,
  barrier: request.barrier,
  hasOutput: false,
  byIds: false,
  finished: false,
  done: false,
  usage: null,
  promptTokens: null,
})

/**
 * True if text must not be sent: an engine that aborts sends all text that it had held back, and a stop string may
 * begin in it. The next engine decodes it again from the ids.
 */
export const withholds = ({ request }: StreamState, { finish }: Chunk): boolean =>
  finish !== null && GAVE_UP.has(finish) && request.stops.length > 0

/**
 * Notes what forbids a continuation by ids from here on.
 * @param at index of the chunk's first id in the output
 */
export function updateState(state: StreamState, { ids, promptIds, text, opens, finish }: Chunk, at: number): void {
  const { record, request } = state
  if (promptIds !== null && record.promptIds === null) {
    record.promptIds = Uint32Array.from(promptIds)
    state.promptTokens ??= promptIds.length
  }
  // Ids without text may be those of `<think>`, which a parser removed: then the rest is not plain text.
  if (text !== '' || opens !== null || (request.showsIds && (ids?.length ?? 0) > 0)) state.hasOutput = true
  if (ids === null && text !== '' && finish === null) state.barrier = 'no_token_ids'
  if (opens === 'tools') state.barrier = 'tools'
  else if (opens === 'reasoning') state.barrier ??= 'reasoning'
  // A parser has closed the reasoning; the rest is plain text. With stop strings, text comes later than its ids.
  if (text === '' || state.barrier !== 'reasoning' || request.stops.length > 0) return
  state.barrier = request.barrier
  record.textStart = { at, ids: ids?.length ?? 0, length: text.length }
}
