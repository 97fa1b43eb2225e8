/** Prompts that are texts or token ids. */
import { isJsonObject } from '../core/json.ts'
import type { Prompt } from '../core/tokens/prompt.ts'
import { isText } from '../core/tokens/utf8-text.ts'

export const UNREADABLE: Prompt = { form: 'unreadable' }

/** A text, texts, ids or lists of ids, as for completions and embeddings. */
export function readTexts(value: unknown, addSpecial: boolean): Prompt {
  if (isText(value)) return { form: 'texts', texts: [value], addSpecial }
  if (!Array.isArray(value) || value.length === 0) return UNREADABLE
  if (value.every(isText)) return { form: 'texts', texts: value, addSpecial }
  if (value.every(isId)) return { form: 'ids', lists: [value] }
  if (value.every(isIds)) return { form: 'ids', lists: value }
  return UNREADABLE
}

/** Token ids, used as they are. */
export const readIds = (value: unknown): Prompt =>
  isIds(value) && value.length > 0 ? { form: 'ids', lists: [value] } : UNREADABLE

/** A query and the documents it is compared with, as one prompt each. */
export function readPairs(query: unknown, documents: unknown): Prompt {
  const texts = [...textsIn(query), ...textsIn(documents)]
  return texts.length === 0 ? UNREADABLE : { form: 'texts', texts, addSpecial: true }
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (!Array.isArray(value)) return []
  return value.flatMap((entry: unknown) => {
    if (typeof entry === 'string') return [entry]
    const text = isJsonObject(entry) ? entry['text'] : undefined
    return typeof text === 'string' ? [text] : []
  })
}

const isId = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0
const isIds = (value: unknown): value is number[] => Array.isArray(value) && value.every(isId)
