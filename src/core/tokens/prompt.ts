/**
 * Reads the prompt of a request body in one form for all endpoints. Never throws: an unreadable prompt has a form of
 * its own.
 */
import type { JsonObject } from '../json.ts'
import { chatOfMessages } from './chat-of-messages.ts'
import { chatOfResponses } from './chat-of-responses.ts'
import { type ChatPrompt, readChat } from './chat.ts'
import type { PromptEndpoint } from './prompt-request.ts'
import { isText, type Text } from './utf8-text.ts'

export type Prompt =
  | {
      readonly form: 'texts'
      /** One prompt each. */
      readonly texts: readonly Text[]
      /** The engine adds its start tokens. */
      readonly addSpecial: boolean
    }
  | { readonly form: 'ids'; readonly lists: readonly (readonly number[])[] }
  | ChatPrompt
  | { readonly form: 'unreadable' }

const unreadable: Prompt = { form: 'unreadable' }

/** Reads the prompt of a parsed body. */
export function readPrompt(endpoint: PromptEndpoint, body: unknown): Prompt {
  if (typeof body !== 'object' || body === null) return unreadable
  const fields = body as JsonObject
  switch (endpoint) {
    case 'completions':
      return plain(fields['prompt'], fields['add_special_tokens'] !== false)
    case 'chat':
      return readChat(fields) ?? unreadable
    case 'responses':
      return chatOfResponses(fields) ?? unreadable
    case 'messages':
      return chatOfMessages(fields) ?? unreadable
    case 'embeddings':
      return fields['messages'] === undefined
        ? plain(fields['input'], fields['add_special_tokens'] !== false)
        : (readChat(fields) ?? unreadable)
    case 'tokenize':
      return fields['messages'] === undefined
        ? plain(fields['prompt'], fields['add_special_tokens'] !== false)
        : (readChat(fields) ?? unreadable)
    case 'rerank':
      return queryAndDocuments(fields['query'], fields['documents'])
    case 'score':
      return scored(fields)
    case 'audio':
    case 'other':
      return unreadable
  }
}

/** A string, strings, ids or lists of ids, as for completions and embeddings. */
function plain(value: unknown, addSpecial: boolean): Prompt {
  if (isText(value)) return { form: 'texts', texts: [value], addSpecial }
  if (!Array.isArray(value) || value.length === 0) return unreadable
  if (value.every(isText)) return { form: 'texts', texts: value, addSpecial }
  if (value.every(isId)) return { form: 'ids', lists: [value] }
  if (value.every(isIds)) return { form: 'ids', lists: value }
  return unreadable
}

const scoreFields = [
  ['text_1', 'text_2'],
  ['queries', 'documents'],
  ['data_1', 'data_2'],
] as const

function scored(fields: JsonObject): Prompt {
  for (const [left, right] of scoreFields) {
    if (fields[left] !== undefined) return queryAndDocuments(fields[left], fields[right])
  }
  return unreadable
}

/** A query and the documents it is compared with. */
function queryAndDocuments(query: unknown, documents: unknown): Prompt {
  const texts = [...asTexts(query), ...asTexts(documents)]
  return texts.length === 0 ? unreadable : { form: 'texts', texts, addSpecial: true }
}

function asTexts(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (!Array.isArray(value)) return []
  return value.flatMap((entry: unknown) => {
    if (typeof entry === 'string') return [entry]
    const text = typeof entry === 'object' && entry !== null ? (entry as JsonObject)['text'] : undefined
    return typeof text === 'string' ? [text] : []
  })
}

const isId = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0

const isIds = (value: unknown): value is number[] => Array.isArray(value) && value.every(isId)
