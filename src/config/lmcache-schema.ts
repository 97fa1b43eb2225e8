/** Schema of `lmcache`: lookups in caches outside the engines. */
import * as z from 'zod/mini'
import { bindingName } from './engine-schema.ts'
import { describe, headerName, int, milliseconds, modelName, strict, withDefault } from './fields.ts'
import { secret, secretText } from './secret-fields.ts'
import { baseUrl } from './url-fields.ts'

export const lmcache = strict({
  coordinator: describe('Base URL of the multi-process coordinator.', z.optional(baseUrl)),
  controller: describe('Base URL of the legacy controller.', z.optional(baseUrl)),
  registry: describe(
    'The gateway itself is the registry: LMCache servers report to `/lmcache/CLUSTER`.',
    withDefault(z.boolean(), false),
  ),
  budget_ms: describe(
    'Time budget of a lookup, including token ids from an engine. After it, the request continues without the ' +
      'result.',
    withDefault(milliseconds(), 30),
  ),
  shared: describe(
    'Engines can read each other’s cache: the best match of any engine counts for all.',
    withDefault(z.boolean(), false),
  ),
  headers: describe(
    'Headers sent to the coordinator or controller, such as access tokens of a tunnel.',
    z.prefault(z.record(headerName, secretText), {}),
  ),
  binding: describe('Workers only: binding to fetch through.', z.optional(bindingName)),
  model: describe(
    'Model name in LMCache’s keys: vLLM’s `--model`. Absent: read from the engines.',
    z.optional(modelName),
  ),
  world_size: describe(
    'Ranks of one engine (TP x PP). Absent: read from the coordinator’s directory, else 1.',
    z.optional(int(1, 255)),
  ),
  chunk_tokens: describe(
    'Registry only: tokens per chunk, LMCache’s `--chunk-size`.',
    withDefault(int(1, 65_536), 256),
  ),
  token: describe(
    'Registry only: token of LMCache servers, sent as `authorization: Bearer` or in the path ' +
      '`/lmcache/CLUSTER/TOKEN`. Absent: the admin key.',
    z.optional(secret),
  ),
})
