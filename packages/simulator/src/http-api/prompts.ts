import { encode } from '../tokenizer.ts'
import type { Body } from './body-fields.ts'
import type { Serving } from './serving.ts'
import { badRequest, type Finding, invalidBody } from './wire-error.ts'

/** A prompt of a completion: as given, and as tokens. */
export interface Prompt {
  readonly text: string | null
  readonly tokens: Uint32Array
}

const isIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((id) => typeof id === 'number')

/** Reads `prompt`: a text, token ids, or a list of either. Throws a WireError. */
export function readPrompts(serving: Serving, body: Body): readonly Prompt[] {
  const { prompt } = body
  if (prompt === undefined || prompt === null || prompt === '' || (Array.isArray(prompt) && prompt.length === 0)) {
    throw badRequest('Either prompt or prompt_embeds must be provided and non-empty.', 'prompt')
  }
  if (typeof prompt === 'string') return [fromText(prompt)]
  if (isIds(prompt)) return [fromIds(serving, prompt)]
  if (!Array.isArray(prompt)) throw notAPrompt(prompt)
  return prompt.map((entry: unknown) => {
    if (typeof entry === 'string') return fromText(entry)
    if (isIds(entry)) return fromIds(serving, entry)
    throw notAPrompt(prompt)
  })
}

function fromText(text: string): Prompt {
  if (text === '') throw badRequest('Either prompt or prompt_embeds must be provided and non-empty.', 'prompt')
  return { text, tokens: encode(text) }
}

/** Validates token ids against the vocabulary. */
function fromIds(serving: Serving, ids: readonly number[]): Prompt {
  const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= serving.settings.vocabularySize)
  if (wrong !== undefined) throw badRequest(`Token id ${wrong} is out of vocabulary`)
  return { text: null, tokens: Uint32Array.from(ids) }
}

/** pydantic reports an error for each accepted form of a prompt. */
function notAPrompt(input: unknown): Error {
  const list: Finding = { type: 'list_type', loc: 'body.prompt', message: 'Input should be a valid list', input }
  const text: Finding = { type: 'string_type', loc: 'body.prompt', message: 'Input should be a valid string', input }
  return invalidBody(list, list, text, list)
}
