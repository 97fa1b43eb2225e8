/** Conversations of a ShareGPT file for production-stack’s multi-round QA (`multi-round-qa.py --sharegpt`). */
import type { RoundSize } from '../replay/workloads.ts'

interface Message {
  readonly from?: unknown
  readonly value?: unknown
  /** Written for answers by production-stack's `data_preprocessing.py`. */
  readonly num_tokens?: unknown
}

/** Characters per token where the file has no count. */
const CHARS_PER_TOKEN = 4

/**
 * Returns the sizes of the rounds of each conversation that has more than two messages per round, as the script
 * selects them. An answer is at most `answerTokens` long. Throws an Error that names the invalid entry.
 */
export function readShareGpt(
  text: string,
  { rounds, answerTokens }: { readonly rounds: number; readonly answerTokens: number },
): readonly (readonly RoundSize[])[] {
  const file: unknown = JSON.parse(text)
  if (!Array.isArray(file)) throw new Error('it must be an array of conversations')
  return file.flatMap((entry: unknown, at) => {
    const messages = (entry as { readonly conversations?: unknown } | null)?.conversations
    if (!Array.isArray(messages)) throw new Error(`entry ${at} has no array "conversations"`)
    if (messages.length <= 2 * rounds) return []
    // A conversation that begins with an answer: its first question is the second message.
    const first = (messages[0] as Message).from === 'gpt' ? 1 : 0
    return [
      Array.from({ length: rounds }, (_, round): RoundSize => {
        const question = messages[2 * round + first] as Message
        const answer = messages[2 * round + first + 1] as Message
        return {
          questionTokens: tokensOf(question, at),
          answerTokens: Math.min(answerTokens, tokensOf(answer, at)),
        }
      }),
    ]
  })
}

function tokensOf(message: Message | null, at: number): number {
  const { num_tokens: counted, value } = message ?? {}
  if (typeof counted === 'number' && Number.isInteger(counted) && counted >= 0) return Math.max(1, counted)
  if (typeof value !== 'string') throw new Error(`entry ${at} has a message without the text "value"`)
  return Math.max(1, Math.ceil(value.length / CHARS_PER_TOKEN))
}
