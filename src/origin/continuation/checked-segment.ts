/** Verifies the first output of an engine that continues a stream, before the client gets it. */
import type { OutputRecord } from '../../core/continuation/output-record.ts'
import type { AttemptFailure, Usage } from '../../core/contract/outcome.ts'
import { OriginError } from '../../ports/origin.ts'
import { payloadOf } from '../relay/sse-records.ts'
import { type Chunk, readChunk } from '../../protocols/read-chunk.ts'
import type { ContinuedSegment } from './continued-segment.ts'
import { type CallContext, detokenize } from './engine-calls.ts'
import { CONTEXT_TOKENS } from './pending-text.ts'
import type { Segment } from './segment.ts'
import type { StreamState } from './stream-state.ts'

/**
 * True if `text` is what these ids add to the first `before` tokens of the output, or a beginning of it. An engine
 * that decodes anew from its prompt sends other text: the prompt of another client, in the worst case. Rejects with
 * an OriginError.
 */
async function isTextOf(
  text: string,
  ids: readonly number[],
  { record, before: count, context }: { record: OutputRecord; before: number; context: CallContext },
): Promise<boolean> {
  const before = [...record.promptIds!.subarray(-CONTEXT_TOKENS), ...record.ids.subarray(0, count)]
  const [base, whole] = await Promise.all([detokenize(context, before), detokenize(context, [...before, ...ids])])
  return whole.startsWith(base) && whole.slice(base.length).startsWith(text)
}

interface CheckParts {
  /** Output tokens that the engine got as its prompt. */
  readonly tokens: number
  readonly calls: CallContext
}

export class CheckedSegment implements Segment {
  readonly #segment: ContinuedSegment
  readonly #state: StreamState
  readonly #tokens: number
  readonly #calls: CallContext
  #failure: AttemptFailure | null = null
  #isChecked = false

  constructor(segment: ContinuedSegment, state: StreamState, { tokens, calls }: CheckParts) {
    this.#segment = segment
    this.#state = state
    this.#tokens = tokens
    this.#calls = calls
  }

  get failure(): AttemptFailure | null {
    return this.#failure ?? this.#segment.failure
  }

  get usage(): Usage | null {
    return this.#segment.usage
  }

  take(record: string): string | Promise<string> {
    if (this.#failure !== null) return ''
    if (this.#isChecked) return this.#segment.take(record)
    const chunk = readChunk(payloadOf(record) ?? '')
    // Ids without text: the first character is not complete yet.
    if (chunk === null || (chunk.text === '' && chunk.promptIds === null)) return this.#segment.take(record)
    return this.#check(chunk, record)
  }

  async #check(chunk: Chunk, record: string): Promise<string> {
    try {
      if (await this.#isContinuation(chunk)) return this.#failure === null ? this.#segment.take(record) : ''
      this.#state.barrier = 'wrong_continuation'
      this.#failure = 'malformed'
    } catch (error) {
      this.#failure = error instanceof OriginError ? error.failure : 'malformed'
    }
    return ''
  }

  async #isContinuation({ text, ids, promptIds }: Chunk): Promise<boolean> {
    const { record } = this.#state
    if (promptIds !== null && !this.#isPrompt(promptIds)) return false
    if (text === '') return true
    this.#isChecked = true
    const added = [...record.ids.subarray(this.#tokens), ...(ids ?? [])]
    return isTextOf(text, added, { record, before: this.#tokens, context: this.#calls })
  }

  /** The engine must use the ids as they were sent. */
  #isPrompt(echoed: readonly number[]): boolean {
    const { promptIds, ids } = this.#state.record
    const prompt = promptIds!.length
    const tokens = this.#tokens
    if (echoed.length !== prompt + tokens) return false
    return echoed.every((id, at) => id === (at < prompt ? promptIds![at] : ids[at - prompt]))
  }
}
