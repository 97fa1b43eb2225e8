/**
 * Grammar of streams with `choices`: chat, completions, transcriptions and token-in requests. They end in `[DONE]`, or
 * with the finish reason of their last choice.
 */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { errorIn, errorNamed, errorOfText } from './engine-error.ts'
import { usageOfPromptTokens } from './reported-usage.ts'
import { DONE, type StreamEvent, type StreamGrammar } from './stream/event.ts'
import { objectIn } from './stream/reader.ts'

/** Text of a choice, all of its fields together. null: the choice has no field for text. */
type TextOfChoice = (choice: JsonObject) => string | null

interface ChoicesGrammarOptions {
  readonly textOf: TextOfChoice
  /** The event comes before the engine's output although it has a choice. */
  readonly isOpening: (choice: JsonObject) => boolean
}

const NONE: ReadonlyMap<string, never> = new Map<string, never>()

export const choicesGrammar = (options: ChoicesGrammarOptions): StreamGrammar => ({
  named: NONE,
  outlines: NONE,
  needsFinish: true,
  endsAtFinish: true,
  numbered: false,
  read: (name, data) => readChunk(name, data, options),
  usage: usageOfPromptTokens,
  mayFollowEnd: () => false,
})

function readChunk(name: string | null, data: string, options: ChoicesGrammarOptions): StreamEvent {
  if (data.trim() === DONE) return { kind: 'end' }
  const json = objectIn(data)
  if (name === 'error') return { kind: 'error', error: errorNamed(json, data) }
  // OpenAI's clients throw on it, too.
  if (json === null) return { kind: 'error', error: errorOfText(data) }
  const error = errorIn(json, data)
  if (error !== null) return { kind: 'error', error }
  const { choices, usage } = json
  const counted = isJsonObject(usage) ? { usage } : {}
  // Some engines leave `choices` out of their usage record, or send null.
  const isEmpty = choices === undefined || choices === null || (Array.isArray(choices) && choices.length === 0)
  if (isEmpty && 'usage' in counted) return { kind: 'usage', ...counted }
  if (!Array.isArray(choices)) return { kind: 'other', ...counted }
  // Azure begins with filter results and no choice.
  if (isEmpty) return { kind: 'opening' }
  return { ...readChoice(choices[0], options), ...counted }
}

function readChoice(choice: unknown, { textOf, isOpening }: ChoicesGrammarOptions): StreamEvent {
  if (!isJsonObject(choice)) return { kind: 'other' }
  const { index, finish_reason: reason } = choice
  const at = typeof index === 'number' ? index : 0
  const finish = typeof reason === 'string' && reason !== '' ? { finish: reason } : {}
  const text = textOf(choice)
  if (text !== null && text !== '') return { kind: 'output', choice: at, text, ...finish }
  if (!('finish' in finish) && isOpening(choice)) return { kind: 'opening' }
  return { kind: 'structure', choice: at, ...finish }
}

/** A text field; '' for anything else. */
export const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')
