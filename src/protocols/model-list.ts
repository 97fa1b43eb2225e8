/** Lists of models in the form that a client expects. */
import { anthropicErrors, type ErrorShape, openaiErrors } from './error-shape.ts'

/** A model as it is listed. */
export interface ListedModel {
  readonly id: string
  /** Base model of an adapter. null: it is none. */
  readonly parent: string | null
  /** Model of the engines, of which `id` may be another name. */
  readonly root: string
  readonly createdAt: number
  /** Longest prompt with output. null: unknown. */
  readonly contextTokens: number | null
}

interface ModelListForm {
  readonly errors: ErrorShape
  list(models: readonly ListedModel[]): unknown
  card(model: ListedModel): unknown
}

/** vLLM's card without fields that only an engine knows. */
const openai: ModelListForm = {
  errors: openaiErrors,
  list: (models) => ({ object: 'list', data: models.map(openai.card) }),
  card: ({ id, parent, root, createdAt, contextTokens }) => ({
    id,
    object: 'model',
    created: Math.floor(createdAt / 1000),
    owned_by: 'firstlight',
    root,
    parent,
    ...(contextTokens === null ? {} : { max_model_len: contextTokens }),
  }),
}

/** https://docs.anthropic.com/en/api/models-list */
const anthropic: ModelListForm = {
  errors: anthropicErrors,
  // One page has all models, whatever `limit` is.
  list: (models) => ({
    data: models.map(anthropic.card),
    has_more: false,
    first_id: models.at(0)?.id ?? null,
    last_id: models.at(-1)?.id ?? null,
  }),
  card: ({ id, createdAt, contextTokens }) => ({
    type: 'model',
    id,
    display_name: id,
    created_at: new Date(createdAt).toISOString(),
    ...(contextTokens === null ? {} : { max_input_tokens: contextTokens }),
  }),
}

/** Anthropic's clients name the version of its API in every request. */
export const modelListFormOf = (headers: { get(name: string): string | null }): ModelListForm =>
  headers.get('anthropic-version') === null ? openai : anthropic
