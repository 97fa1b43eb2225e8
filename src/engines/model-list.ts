/** Reads `/v1/models`. */
import { isJsonObject } from '../core/json.ts'
import { numberIn, type Capacity } from './engine-type.ts'

export interface ModelCard {
  readonly id: string
  /** `--model`, if the id is another name for it. */
  readonly root: string | null
  /** Set on adapters: the base model. */
  readonly parent: string | null
  readonly maxModelLen: number | null
  /** Name of the server software, or of the owner of the model. */
  readonly ownedBy: string | null
}

/** null: no model list. */
export function modelCards(json: unknown): readonly ModelCard[] | null {
  const data = isJsonObject(json) ? json['data'] : null
  if (!Array.isArray(data)) return null
  return data.filter(isJsonObject).flatMap((card) => {
    const text = (name: string): string | null => (typeof card[name] === 'string' ? card[name] : null)
    const id = text('id')
    return id === null
      ? []
      : [
          {
            id,
            root: text('root'),
            parent: text('parent'),
            maxModelLen: numberIn(card, 'max_model_len'),
            ownedBy: text('owned_by'),
          },
        ]
  })
}

/** Adapters of a model that a server has loaded; null: it sent no list of models. */
export function adaptersFromModels(json: unknown): readonly string[] | null {
  return modelCards(json)?.flatMap(({ id, parent }) => (parent === null ? [] : [id])) ?? null
}

/** Adapters have no length of their own in SGLang's list; that of their base model counts. */
export function capacityFromModels(json: unknown, model: string): Capacity {
  const cards = modelCards(json) ?? []
  const card = cards.find(({ id }) => id === model)
  const base =
    card?.parent == null ? undefined : cards.find(({ id, root }) => id === card.parent || root === card.parent)
  return { contextTokens: card?.maxModelLen ?? base?.maxModelLen ?? null, slots: null }
}
