/** All that the gateway knows of one wire protocol. A new protocol is a new file and one line in protocols.ts. */
import type { Continuable, MidStream, NotContinued } from '../core/continuation/continuable.ts'
import type { JsonObject } from '../core/json.ts'
import type { Prompt } from '../core/tokens/prompt.ts'
import type { Comparison } from './comparison.ts'
import type { CompletionForm } from './completion-form.ts'
import type { ErrorShape } from './error-shape.ts'
import type { ReportedUsage } from './reported-usage.ts'
import type { SessionSource } from './session.ts'
import type { StreamGrammar } from './stream/event.ts'

/** One path of a protocol. Paths outside the table do not exist at the gateway. */
export interface Endpoint {
  readonly path: string
  /** The body is an upload (`multipart/form-data`) instead of JSON. */
  readonly form: boolean
  /** The response can be a stream. */
  readonly streams: boolean
  /** The stream has usage only if `stream_options.include_usage` requests it. */
  readonly usageOnRequest: boolean
  /** The engine reads `cache_salt`. */
  readonly salted: boolean
  /** The engine stores the response for later calls. */
  readonly storesResponses: boolean
  /** Changes to a request that mirror traffic repeats. null: it is not mirrored. */
  readonly mirrorEdit: FieldEdit | null
  /** The answer, if it is the number of prompt tokens and nothing more. null: it has more. */
  readonly countAnswer: ((promptTokens: number) => unknown) | null
  /** The engine computes the prompt, so its tokens count for limits and budgets. */
  readonly computes: boolean
  /** Why no request of this path can be split between prefill and decode engines. null: `splitting` decides. */
  readonly unsplittable: string | null
}

/** How much output a request may have. */
interface OutputBounds {
  /** Names of the fields that bound the output, the decisive one first. */
  readonly fields: readonly string[]
  /** Limit of one answer in tokens. null: none is given, and the protocol has no default. */
  limit(body: JsonObject): number | null
  /** Number of parallel answers: `n` per prompt. */
  sequences(body: JsonObject): number
}

/** Changes to the fields of a body: for one leg of a split request, or a repetition. */
export interface FieldEdit {
  /** Field → value as JSON text. Replaces the client's value, or is added at the front. */
  readonly set: Readonly<Record<string, string>>
  readonly remove: readonly string[]
}

/** How a request is split between a prefill and a decode engine. */
export interface Splitting {
  /**
   * Why this request cannot be split. null: it can.
   * @param exempt the engine exempts prefill legs from its checks (NIXL)
   */
  unsplittable(body: JsonObject, exempt: boolean): string | null
  /** Edit of the prefill leg: one token, no stream, nothing that fails on one token; the prompt stays the same. */
  prefillEdit(body: JsonObject): FieldEdit
}

/** Members of a request with its prompt. */
export interface PromptFields {
  /** With texts or messages. */
  readonly texts: readonly string[]
  /** With token ids, or lists of them. */
  readonly ids: readonly string[]
}

export const NO_PROMPT_FIELDS: PromptFields = { texts: [], ids: [] }

export interface Protocol {
  /** Name for logs, configuration and documentation. Nothing outside this folder compares it. */
  readonly name: string
  /** `gen_ai.operation.name` of traces. */
  readonly operation: string
  readonly endpoints: readonly Endpoint[]
  readonly promptFields: PromptFields
  /** Reads the prompt: texts, token ids, or messages for the chat template. Never throws. */
  prompt(body: JsonObject): Prompt
  readonly bounds: OutputBounds
  /** Images, sounds and videos of the prompt, as content parts of a chat. Never throws. Absent: it has none. */
  readonly media?: (body: JsonObject) => readonly JsonObject[]
  /** The engine computes the whole prompt of this request and reads no cache. */
  computesAll(body: JsonObject): boolean
  /** Answers that are no stream are JSON, so anything else with a success status is a fault. */
  answersJson(body: JsonObject): boolean
  /** null: requests of this protocol go to one engine. */
  readonly splitting: Splitting | null
  /** Requests and answers as completions of token ids. null: the gateway has no conversion. */
  readonly asCompletion: CompletionForm | null
  /** What a continuation of the stream at another engine needs, or why the stream cannot be continued. */
  continuable(body: JsonObject, mode: MidStream): Continuable | NotContinued
  /** How answers of two engines are compared. Absent: they are not. */
  readonly comparison?: Comparison
  /** null: answers are no streams. */
  readonly stream: StreamGrammar | null
  /** Token counts of a `usage` object of this protocol. */
  usage(fields: JsonObject): ReportedUsage
  /** Member of a stream's events that holds the answer and its `model`. null: the event itself is the answer. */
  readonly streamedAnswer: 'response' | 'message' | null
  /** Errors that the gateway writes, as body and as event. */
  readonly errors: ErrorShape
  /** Clients may send their key as `x-api-key`, too. */
  readonly acceptsApiKeyHeader: boolean
  /** Where clients name their session, in order. */
  readonly sessions: readonly SessionSource[]
}

/** Traits that most endpoints share. */
export const PLAIN_ENDPOINT = {
  form: false,
  streams: false,
  usageOnRequest: false,
  salted: false,
  storesResponses: false,
  mirrorEdit: null,
  countAnswer: null,
  computes: true,
  unsplittable: null,
} as const

/** Traits of endpoints that count or convert tokens. */
export const UNCOMPUTED = { computes: false, unsplittable: 'nothing is computed' } as const

/** Requests of mirror traffic have no priority of their client. */
export const PLAIN_MIRROR_EDIT: FieldEdit = { set: {}, remove: ['priority'] }

/** Traits of endpoints whose body is a form. */
export const UPLOAD_ENDPOINT = { ...PLAIN_ENDPOINT, form: true, unsplittable: 'an upload goes to one engine' } as const
