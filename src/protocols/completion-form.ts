/**
 * Requests and answers of a protocol as completions of token ids. Engines get such a completion instead of the client's
 * request for the rest of a stream, and in both legs of LMCache.
 */
import type { JsonObject } from '../core/json.ts'

/** A choice that the gateway writes into a chunk. */
export interface WrittenChoice {
  readonly text: string
  readonly finish: string | null
  readonly stopReason: unknown
  /** null: the client did not ask for ids. */
  readonly ids: readonly number[] | null
}

export interface CompletionForm {
  /** A completion has other members than an answer of this protocol. */
  readonly converts: boolean
  /** Why the prompt has no token ids. null: it has. */
  withoutIds(body: JsonObject): string | null
  /** Fields of a `/tokenize` request for the prompt, besides the model. */
  tokenizeFields(body: JsonObject): JsonObject
  /** Writes a choice of a chunk. */
  choice(written: WrittenChoice): JsonObject
  /** Chunks before the first one of the completion: they bring `text`. */
  opening(completionChunk: JsonObject, text: string): readonly JsonObject[]
  /** A chunk of the completion as one of this protocol. */
  chunk(completionChunk: JsonObject): JsonObject
  /** A whole completion as an answer of this protocol, with `text` before its own. */
  answer(completion: JsonObject, text: string): JsonObject
}

export const choicesOf = ({ choices }: JsonObject): readonly JsonObject[] => choices as JsonObject[]

/** Completions themselves. */
export const ownCompletionForm: CompletionForm = {
  converts: false,
  withoutIds: ({ prompt }) => (prompt === undefined || prompt === null ? 'no prompt' : null),
  tokenizeFields: ({ prompt }) => ({ prompt }),
  choice: ({ text, finish, stopReason, ids }) => ({
    index: 0,
    text,
    logprobs: null,
    finish_reason: finish,
    stop_reason: stopReason ?? null,
    prompt_token_ids: null,
    token_ids: ids,
  }),
  opening: ({ id, object, created, model }, text) => [
    {
      id,
      object,
      created,
      model,
      choices: [ownCompletionForm.choice({ text, finish: null, stopReason: null, ids: null })],
    },
  ],
  chunk: (chunk) => chunk,
  answer: (completion, first) => ({
    ...completion,
    choices: choicesOf(completion).map((choice) => ({ ...choice, text: first + String(choice['text'] ?? '') })),
  }),
}
