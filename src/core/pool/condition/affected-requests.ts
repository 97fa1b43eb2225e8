import type { Admission } from '../../contract/admission.ts'
import type { AffectedRequests, HurtRequests } from '../../contract/pool-digest.ts'

/** Further keys and models are a number only. */
const MAX_NAMES = 5

/** Requests without a first token whose client left, of which the names are kept. */
const LAST_KEPT = 100

type AffectedRequest = Pick<Admission, 'tenant' | 'model'>

/** Returns whose requests these are. */
export function affectedBy(requests: Iterable<AffectedRequest>): AffectedRequests {
  const keys = new Map<string, number>()
  const models = new Map<string, number>()
  let count = 0
  for (const { tenant, model } of requests) {
    count += 1
    keys.set(tenant, (keys.get(tenant) ?? 0) + 1)
    models.set(model, (models.get(model) ?? 0) + 1)
  }
  return {
    requests: count,
    keys: keys.size,
    models: models.size,
    keyNames: namesOf(keys),
    modelNames: namesOf(models),
  }
}

/** Those with most requests first. */
const namesOf = (counts: ReadonlyMap<string, number>): readonly string[] =>
  [...counts]
    .sort(([, one], [, other]) => other - one)
    .slice(0, MAX_NAMES)
    .map(([name]) => name)

/** `AffectedRequests` as an event has them. */
interface AffectedFields {
  readonly requests: number
  readonly keys: number
  readonly models: number
  readonly key_names: readonly string[]
  readonly model_names: readonly string[]
}

/** `HurtRequests` as an event has them. */
export interface HurtFields extends AffectedFields {
  /** Absent: none. */
  readonly gave_up?: AffectedFields
}

export const hurtFields = ({ gaveUp, ...waiting }: HurtRequests): HurtFields => ({
  ...affectedFields(waiting),
  ...(gaveUp === undefined || gaveUp.requests === 0 ? {} : { gave_up: affectedFields(gaveUp) }),
})

const affectedFields = ({ keyNames = [], modelNames = [], ...counts }: AffectedRequests): AffectedFields => ({
  ...counts,
  key_names: keyNames,
  model_names: modelNames,
})

/** Requests of one engine whose client left before the first token. */
export class AbandonedRequests {
  total = 0
  /** Oldest first. */
  readonly #last: (AffectedRequest & { readonly at: number })[] = []

  add({ tenant, model }: AffectedRequest, now: number): void {
    this.total += 1
    this.#last.push({ tenant, model, at: now })
    if (this.#last.length > LAST_KEPT) this.#last.shift()
  }

  /** Of more than `LAST_KEPT` the last ones. */
  since(time: number): AffectedRequests {
    return affectedBy(this.#last.filter(({ at }) => at > time))
  }
}
