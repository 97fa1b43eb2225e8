/** Reads the chunks of an engine's stream. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { textIn } from './choices-stream.ts'
import { objectIn } from './stream/reader.ts'

/** One event of a stream. */
export interface Chunk {
  readonly json: JsonObject
  /** Ids of the tokens in this chunk; null: none were sent. */
  readonly ids: readonly number[] | null
  readonly promptIds: readonly number[] | null
  readonly text: string
  readonly finish: string | null
  /** The choice has fields besides text: reasoning, tool calls. */
  readonly opens: 'reasoning' | 'tools' | null
  /** A chat chunk whose delta has no field: it exists only because ids were requested. */
  readonly isEmpty: boolean
  /** No choice: the usage record. */
  readonly isUsage: boolean
  readonly isError: boolean
}

/** Reads the payload of an event. null: no JSON object. */
export function readChunk(payload: string): Chunk | null {
  const json = objectIn(payload)
  if (json === null) return null
  const { choices } = json
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isJsonObject(choice))
    return { ...NOTHING, json, isUsage: isJsonObject(json['usage']), isError: isJsonObject(json['error']) }
  const delta = isJsonObject(choice['delta']) ? choice['delta'] : null
  const { finish_reason: finish } = choice
  return {
    json,
    ids: idsIn(choice['token_ids']),
    promptIds: idsIn(choice['prompt_token_ids']) ?? idsIn(json['prompt_token_ids']),
    text: textIn(delta === null ? choice['text'] : delta['content']),
    finish: typeof finish === 'string' ? finish : null,
    opens: delta === null ? null : openedBy(delta),
    isEmpty: delta !== null && Object.keys(delta).length === 0,
    isUsage: false,
    isError: false,
  }
}

const NOTHING = {
  ids: null,
  promptIds: null,
  text: '',
  finish: null,
  opens: null,
  isEmpty: false,
} as const

const idsIn = (value: unknown): readonly number[] | null => (Array.isArray(value) ? (value as number[]) : null)

function openedBy(delta: JsonObject): Chunk['opens'] {
  if (Array.isArray(delta['tool_calls']) && delta['tool_calls'].length > 0) return 'tools'
  return textIn(delta['reasoning'] ?? delta['reasoning_content']) === '' ? null : 'reasoning'
}

/** Matches no text of a string in the JSON: a quote inside a string has a backslash before it. */
const IDS = /"(prompt_token_ids|token_ids)":\s*\[[\d,\s]*\]/g

/** Replaces token ids by null, as an engine sends them when they are not requested. */
export const withoutIds = (payload: string): string => payload.replace(IDS, '"$1":null')
