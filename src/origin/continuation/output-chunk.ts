/** Writes the chunks of a client's stream. */
import type { JsonObject } from '../../core/json.ts'

/** Fields that all chunks of a response have in common. */
export interface ResponseHead {
  readonly id: unknown
  readonly object: unknown
  readonly created: unknown
  readonly model: unknown
}

export const headOf = ({ id, object, created, model }: JsonObject): ResponseHead => ({
  id: id ?? null,
  object: object ?? null,
  created: created ?? null,
  model: model ?? null,
})

export interface OutputChunk {
  readonly text: string
  readonly finish: string | null
  readonly stopReason: unknown
  /** null: the client did not ask for ids. */
  readonly ids: readonly number[] | null
}

/** Writes a chunk in the client's format. */
export function outputChunk(head: ResponseHead, api: 'chat' | 'completions', chunk: OutputChunk): string {
  const { text, finish, stopReason, ids } = chunk
  const choice =
    api === 'chat'
      ? {
          index: 0,
          delta: text === '' && finish !== null ? {} : { content: text },
          logprobs: null,
          finish_reason: finish,
          ...(finish === null ? {} : { stop_reason: stopReason ?? null }),
          token_ids: ids,
        }
      : {
          index: 0,
          text,
          logprobs: null,
          finish_reason: finish,
          stop_reason: stopReason ?? null,
          prompt_token_ids: null,
          token_ids: ids,
        }
  return JSON.stringify({ ...head, choices: [choice] })
}

/** Writes the usage record. */
export const usageChunk = (head: ResponseHead, usage: JsonObject, rest: JsonObject): string =>
  JSON.stringify({ ...head, choices: [], usage, ...rest })
