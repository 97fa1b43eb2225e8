/** Schema of mirror traffic: a share of requests is repeated at another model. */
import * as z from 'zod/mini'
import { describe, modelName, number, strict } from './fields.ts'

const mirror = strict({
  to: describe(
    'Model, alias or adapter of another pool that gets the repeated requests. Their answers are discarded.',
    modelName,
  ),
  share: describe('Share of the requests that are repeated.', number(0, 1)),
})

/** The setting of a pool or of a weighted model. */
export const optionalMirror = describe(
  'Mirror traffic: repeat a share of chats, completions, messages and responses at another model, charged to no ' +
    'key (docs/mirror-traffic.md). Absent: none.',
  z.optional(mirror),
)
