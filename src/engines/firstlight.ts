/** Another Firstlight gateway: the engine of a region. Source: src/failure.ts. */
import { answersBy, type TextRule } from './answer-meaning.ts'
import { ADDABLE_FIELDS, PLAIN, type EngineType } from './engine-type.ts'
import { capacityFromModels } from './model-list.ts'
import { PROXY_TEXTS } from './proxy-answers.ts'

/**
 * The gateway is healthy and has tried its engines: they are full or unavailable. Gateways that fail over to each other
 * must not open each other's circuits.
 */
const UNAVAILABLE =
  /^(?:engines_full|overloaded|rate_limit_exceeded|no_engine_available|retry_budget_exhausted|role_empty|draining|connections_full|gateway_limit_reached|request_buffers_full|state_unreachable)$/

export const FIRSTLIGHT_TEXTS: readonly TextRule[] = [
  { statuses: [429, 503], pattern: UNAVAILABLE, field: 'code', means: 'busy' },
  { statuses: [404, 405], pattern: /^(?:unknown_url|method_not_allowed)$/, field: 'code', means: 'lacks_route' },
]

/** 503 of any kind, as before there were codes. */
const ANY_503: TextRule = { statuses: [503], pattern: /(?:)/, means: 'busy' }

export const firstlight: EngineType = {
  ...PLAIN,
  name: 'firstlight',
  title: 'Firstlight',
  detection: { metrics: ['firstlight_'], owners: ['firstlight'], server: null, routes: [] },
  // Its digest is requested instead: an answer is good health, and it contains the load of its engines.
  health: [],
  capacity: { path: '/v1/models', read: capacityFromModels },
  answerOf: answersBy({
    texts: [...FIRSTLIGHT_TEXTS, ...PROXY_TEXTS, ANY_503],
    // It has asked its engine with the largest context.
    tooLong: [],
    tooManyRequests: 'busy',
  }),
  addable: ADDABLE_FIELDS,
}
