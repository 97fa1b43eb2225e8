/** What a simulated engine generates for a request. Every token depends on all before it, so each has its place. */
import { decode, encode } from '../../simulator/src/tokenizer.ts'
import { generate } from '../../simulator/src/http-api/text-generator.ts'
import { renderChat } from '../../simulator/src/http-api/render-chat.ts'

export interface PromptOptions {
  /** Absent: a chat with `text` as its only message. */
  readonly isCompletion: boolean
  readonly text: string
  readonly maxTokens: number
}

export interface Difference {
  readonly lost: number
  readonly duplicate: number
}

const NONE: Difference = { lost: 0, duplicate: 0 }

/** Output tokens as text, for the engines' name of the model. */
export function expectedTokens(model: string, { isCompletion, text, maxTokens }: PromptOptions): readonly string[] {
  const options = { addGenerationPrompt: true, continueFinalMessage: false, tools: null }
  const prompt = isCompletion ? encode(text) : renderChat([{ role: 'user', content: text }], options).tokens
  const { tokens } = generate(model, prompt, { maxTokens, mayStop: false, minTokens: 0 })
  return Array.from(tokens, (token) => decode([token]))
}

/**
 * Compares the text that a client received with the tokens of its request. A token that the request does not have
 * counts as duplicate. An incomplete text must be a prefix.
 */
export function difference(text: string, expected: readonly string[], isComplete: boolean): Difference {
  const whole = expected.join('')
  if (text === whole || (!isComplete && whole.startsWith(text))) return NONE
  const received = text.match(/ ?[^ ]+/g) ?? []
  const wanted = isComplete ? expected : expected.slice(0, received.length)
  const common = longestCommon(received, wanted)
  return { lost: wanted.length - common, duplicate: received.length - common }
}

/** Length of the longest common subsequence. */
function longestCommon(one: readonly string[], other: readonly string[]): number {
  let row = Array.from({ length: other.length + 1 }, () => 0)
  for (const token of one) {
    const next = [0]
    other.forEach((each, at) => next.push(each === token ? row[at]! + 1 : Math.max(row[at + 1]!, next[at]!)))
    row = next
  }
  return row[other.length]!
}
