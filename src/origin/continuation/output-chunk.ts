/** Writes the chunks of a client's stream. */
import type { JsonObject } from '../../core/json.ts'
import type { CompletionForm, WrittenChoice } from '../../protocols/completion-form.ts'

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

/** Writes a chunk in the client's format. */
export const outputChunk = (head: ResponseHead, form: CompletionForm, choice: WrittenChoice): string =>
  JSON.stringify({ ...head, choices: [form.choice(choice)] })

/** Writes the usage record. */
export const usageChunk = (head: ResponseHead, usage: JsonObject, rest: JsonObject): string =>
  JSON.stringify({ ...head, choices: [], usage, ...rest })
