/** Text that the failed engine had generated and not sent, and the ids from which the stream continues. */
import type { NotContinued } from '../../core/continuation/continuable.ts'
import type { OutputRecord } from '../../core/continuation/output-record.ts'
import { detokenize, type CallContext } from './engine-calls.ts'
import type { AttemptFailure, Usage } from '../../core/contract/outcome.ts'
import { OriginError } from '../../ports/origin.ts'
import { payloadOf } from '../relay/transform.ts'
import { readChunk, type Chunk } from './chunks.ts'
import type { ContinuedSegment, Segment, StreamState } from './segments.ts'

/** Prompt tokens before the output that are decoded with it: the first characters depend on them (leading space). */
const CONTEXT_TOKENS = 8
/** Longest UTF-8 character, bytes: as many ids at most may end inside it. */
const MOST_DROPPED = 3
const REPLACEMENT = '\ufffd'
const NO_IDS = new Uint32Array()

interface Pending {
  /** Follows the text that the client has. */
  readonly text: string
  /** Ids that were dropped because they end inside a character. */
  readonly dropped: number
}

/**
 * Decodes the output ids. Drops ids that end inside a character: vLLM would send the whole decoded prompt as text
 * (vllm-project/vllm#48853). Compares the result with what was sent: if the texts differ, the ids are not those of the
 * text. Rejects with an OriginError.
 */
export async function pendingText(record: OutputRecord, context: CallContext): Promise<Pending | NotContinued> {
  const from = record.textStart?.at ?? 0
  const before = [...record.promptIds!.subarray(-CONTEXT_TOKENS), ...record.ids.subarray(0, from)].slice(
    -CONTEXT_TOKENS,
  )
  const decode = (ids: Uint32Array): Promise<string> => detokenize(context, [...before, ...ids])
  const { textStart, ids } = record
  // At the same time: the client waits for all of them.
  const [base, begun, all] = await Promise.all([
    decode(NO_IDS),
    textStart === null ? '' : decode(ids.subarray(textStart.at, textStart.at + textStart.ids)),
    decode(ids.subarray(from)),
  ])
  const removed = textStart === null ? 0 : removedLength(begun, base.length + textStart.length)
  let whole = all
  for (let dropped = 0; ; dropped++) {
    if (!whole.startsWith(base)) return 'text_differs'
    const text = whole.slice(base.length + removed)
    if (!text.endsWith(REPLACEMENT)) {
      if (!record.beginsWithSent(text)) return 'text_differs'
      return { text: text.slice(record.sentLength), dropped }
    }
    // The client has the character: the engine itself could not decode it.
    if (dropped === MOST_DROPPED || record.tail.endsWith(REPLACEMENT)) return 'incomplete_character'
    record.dropLast()
    whole = await decode(record.ids.subarray(from))
  }
}

/** Length of what a parser removed from the beginning of the chunk with the first text: `</think>` and line breaks. */
const removedLength = (whole: string, sent: number): number => Math.max(0, whole.search(/\ufffd*$/) - sent)

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

/* Verifies the first output of an engine that continues a stream, before the client gets it. */

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
