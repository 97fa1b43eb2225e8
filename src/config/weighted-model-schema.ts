/** Schema of names that stand for several models by weight. */
import * as z from 'zod/mini'
import { clientModel, describe, id, int, modelName, number, strict, withDefault } from './fields.ts'
import { optionalMirror } from './mirror-schema.ts'

const stop = strict({
  failed_share: describe(
    'Share of failed requests in the last 5 minutes at which the target is stopped: it gets no more requests by ' +
      'weight until the configuration is reloaded. Requests that a client sent wrongly or left do not count.',
    withDefault(number(0.001, 1), 0.1),
  ),
  min_requests: describe('Requests in the last 5 minutes before the share counts.', withDefault(int(1, 100_000), 20)),
})

const target = strict({
  model: describe('Model, alias or adapter of a pool, also of a provider (`kind: external`).', modelName),
  weight: describe(
    'Share of the requests relative to the other targets. 0: only keys of `keys`, and requests with ' +
      '`firstlight.target`, get here.',
    withDefault(number(0, 1_000_000), 1),
  ),
  keys: describe(
    'Names of keys whose requests for this name always go here, such as those of testers.',
    withDefault(z.array(id), []),
  ),
  stop: describe('Stops the target when its requests fail. Absent: never.', z.optional(stop)),
})

export const weightedModel = strict({
  name: describe(
    'Name that clients request. No model, alias or adapter may have it. Keys with `models` need this name, not ' +
      'those of the targets.',
    clientModel,
  ),
  targets: describe('Models that the requests go to.', z.array(target).check(z.minLength(1))),
  mirror: optionalMirror,
})
