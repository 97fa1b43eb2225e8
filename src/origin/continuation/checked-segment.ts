/** Verifies the first output of an engine that continues a stream, before the client gets it. */
import type { AttemptFailure, Usage } from '../../core/contract/contract.ts'
import { OriginError } from '../../ports.ts'
import { payloadOf } from '../relay/transform.ts'
import { readChunk, type Chunk } from './chunks.ts'
import type { CallContext } from './engine-calls.ts'
import { isTextOf } from './pending-text.ts'
import type { ContinuedSegment, Segment, StreamState } from './segments.ts'

interface Checked {
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

  constructor(segment: ContinuedSegment, state: StreamState, { tokens, calls }: Checked) {
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
      if (await this.#isRight(chunk)) return this.#failure === null ? this.#segment.take(record) : ''
      this.#state.barrier = 'wrong_continuation'
      this.#failure = 'malformed'
    } catch (error) {
      this.#failure = error instanceof OriginError ? error.failure : 'malformed'
    }
    return ''
  }

  async #isRight({ text, ids, promptIds }: Chunk): Promise<boolean> {
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
