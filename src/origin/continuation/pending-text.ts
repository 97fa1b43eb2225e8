/** Text that the failed engine had generated and not sent, and the ids from which the stream continues. */
import type { NotContinued } from '../../core/continuation/continuable.ts'
import type { OutputRecord } from '../../core/continuation/output-record.ts'
import { type CallContext, detokenize } from './engine-calls.ts'

/** Prompt tokens before the output that are decoded with it: the first characters depend on them (leading space). */
export const CONTEXT_TOKENS = 8

/** Longest UTF-8 character, bytes: as many ids at most may end inside it. */
const MAX_DROPPED = 3

const REPLACEMENT = '\ufffd'

const NO_IDS = new Uint32Array()

interface PendingText {
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
export async function pendingText(record: OutputRecord, context: CallContext): Promise<PendingText | NotContinued> {
  const from = record.textStart?.at ?? 0
  const before = [...record.promptIds!.subarray(-CONTEXT_TOKENS), ...record.ids.subarray(0, from)].slice(
    -CONTEXT_TOKENS,
  )
  const decode = (ids: Uint32Array): Promise<string> => detokenize(context, [...before, ...ids])
  const { textStart, ids } = record
  // At the same time: the client waits for all of them.
  const [base, firstChunk, all] = await Promise.all([
    decode(NO_IDS),
    textStart === null ? '' : decode(ids.subarray(textStart.at, textStart.at + textStart.ids)),
    decode(ids.subarray(from)),
  ])
  const removed = textStart === null ? 0 : removedLength(firstChunk, base.length + textStart.length)
  let whole = all
  for (let dropped = 0; ; dropped++) {
    if (!whole.startsWith(base)) return 'text_differs'
    const text = whole.slice(base.length + removed)
    if (!text.endsWith(REPLACEMENT)) {
      if (!record.beginsWithSent(text)) return 'text_differs'
      return { text: text.slice(record.sentLength), dropped }
    }
    // The client has the character: the engine itself could not decode it.
    if (dropped === MAX_DROPPED || record.tail.endsWith(REPLACEMENT)) return 'incomplete_character'
    record.dropLast()
    whole = await decode(record.ids.subarray(from))
  }
}

/** Length of what a parser removed from the beginning of the chunk with the first text: `</think>` and line breaks. */
const removedLength = (whole: string, sent: number): number => Math.max(0, whole.search(/\ufffd*$/) - sent)
