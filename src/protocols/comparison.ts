/** How answers of two engines to one prompt are compared (semantic canary). */
import type { AnswerToken } from '../core/canary/answers-agree.ts'
import { isJsonObject, type JsonObject } from '../core/json.ts'

/** Changes to the body of a repeated request. The shape of `FieldEdit`. */
interface RepeatEdit {
  readonly set: Readonly<Record<string, string>>
  readonly remove: readonly string[]
}

export interface Comparison {
  /** Edit of the repeated request: short, greedy, no stream, with log probabilities. */
  readonly edit: RepeatEdit
  /** Tokens of an answer with log probabilities, else its text as one token. null: no answer. */
  tokens(answer: JsonObject): readonly AnswerToken[] | null
}

/** Tokens that are compared: wrong weights and templates show within the first few. */
const COMPARED_TOKENS = 32

/** Parameters that need a stream, a longer answer, or several. */
const REMOVED = ['stream_options', 'max_completion_tokens', 'min_tokens', 'n', 'best_of', 'top_logprobs', 'priority']

const editWith = (logprobs: string): RepeatEdit => ({
  set: { stream: 'false', temperature: '0', max_tokens: String(COMPARED_TOKENS), logprobs },
  remove: REMOVED,
})

/** Whether the request is greedy and has one answer, so that sound engines agree on it. */
export function isGreedy({ temperature, n = 1, best_of: best = 1, echo, logit_bias: bias }: JsonObject): boolean {
  return temperature === 0 && (n === 1 || n === null) && (best === 1 || best === null) && echo !== true && bias == null
}

export const chatComparison: Comparison = {
  edit: editWith('true'),
  tokens: (answer) => {
    const choice = firstChoice(answer)
    const content = isJsonObject(choice?.['logprobs']) ? choice['logprobs']['content'] : null
    if (Array.isArray(content) && content.length > 0)
      return (content as readonly unknown[]).flatMap((one) =>
        isJsonObject(one) ? tokenOf(one['token'], one['logprob']) : [],
      )
    const message = choice?.['message']
    return isJsonObject(message) ? wholeText([message['reasoning'], message['content'], message['tool_calls']]) : null
  },
}

export const completionComparison: Comparison = {
  edit: editWith('1'),
  tokens: (answer) => {
    const choice = firstChoice(answer)
    if (choice === null) return null
    const { tokens, token_logprobs: logprobs } = isJsonObject(choice['logprobs']) ? choice['logprobs'] : {}
    if (Array.isArray(tokens) && Array.isArray(logprobs) && tokens.length > 0)
      return (tokens as readonly unknown[]).flatMap((token, at) => tokenOf(token, logprobs[at]))
    return wholeText([choice['text']])
  },
}

function firstChoice({ choices }: JsonObject): JsonObject | null {
  const first: unknown = Array.isArray(choices) ? choices[0] : null
  return isJsonObject(first) ? first : null
}

const tokenOf = (text: unknown, logprob: unknown): AnswerToken[] =>
  typeof text === 'string' ? [{ text, logprob: typeof logprob === 'number' ? logprob : null }] : []

/** Ids of tool calls are random. */
const wholeText = (parts: readonly unknown[]): readonly AnswerToken[] => [
  { text: JSON.stringify(parts, (key, value: unknown) => (key === 'id' ? undefined : value)), logprob: null },
]
