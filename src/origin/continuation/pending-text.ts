/** Text that the failed engine had generated and not sent, and the ids from which the stream continues. */
import type { NotContinued } from '../../core/continuation/features.ts'
import type { OutputRecord } from '../../core/continuation/output-record.ts'
import { detokenize, type CallContext } from './engine-calls.ts'

/** Prompt tokens before the output that are decoded with it: the first characters depend on them (leading space). */
const CONTEXT_TOKENS = 8
/** Longest UTF-8 character, bytes: as many ids at most may end inside it. */
const MOST_DROPPED = 3
const REPLACEMENT = '\ufffd'

export interface Pending {
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
  const base = await detokenize(context, before)
  const removed = await removedLength(record, { before, base }, context)
  let dropped = 0
  for (;;) {
    const whole = await detokenize(context, [...before, ...record.ids.subarray(from)])
    if (!whole.startsWith(base)) return 'text_differs'
    const text = whole.slice(base.length + removed)
    if (!text.endsWith(REPLACEMENT)) {
      if (!record.beginsWithSent(text)) return 'text_differs'
      return { text: text.slice(record.sentLength), dropped }
    }
    // The client has the character: the engine itself could not decode it.
    if (dropped === MOST_DROPPED || record.tail.endsWith(REPLACEMENT)) return 'incomplete_character'
    dropped++
    record.dropLast()
  }
}

/** Length of what a parser removed from the beginning of the chunk with the first text: `</think>` and line breaks. */
async function removedLength(
  { textStart, ids }: OutputRecord,
  { before, base }: { readonly before: readonly number[]; readonly base: string },
  context: CallContext,
): Promise<number> {
  if (textStart === null) return 0
  const { at, ids: count, length } = textStart
  const whole = await detokenize(context, [...before, ...ids.subarray(at, at + count)])
  const end = whole.search(/\ufffd*$/)
  return Math.max(0, end - base.length - length)
}

/**
 * True if `text` is what these ids add to the first `before` tokens of the output, or a beginning of it. An engine
 * that decodes anew from its prompt sends other text: the prompt of another client, in the worst case. Rejects with
 * an OriginError.
 */
export async function isTextOf(
  text: string,
  ids: readonly number[],
  { record, before: count, context }: { record: OutputRecord; before: number; context: CallContext },
): Promise<boolean> {
  const before = [...record.promptIds!.subarray(-CONTEXT_TOKENS), ...record.ids.subarray(0, count)]
  const [base, whole] = await Promise.all([detokenize(context, before), detokenize(context, [...before, ...ids])])
  return whole.startsWith(base) && whole.slice(base.length).startsWith(text)
}
