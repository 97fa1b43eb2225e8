import { PAYLOAD_VERSION, type Overrides } from '../core/cluster/contract.ts'
import type { PromptMeasure, PromptRequest } from '../core/tokens/measure.ts'
import type { PoolSettings } from '../config.ts'
import type { BodyEdit, Exchange, PoolRoute } from '../origin/exchange.ts'
import { unsplittableByLmcache } from '../origin/disagg/lmcache-fields.ts'
import { headersForEngine } from '../origin/headers.ts'
import type { CacheLookups, Prompted } from '../origin/lmcache/lookups.ts'
import { Failure } from '../failure.ts'
import type { JsonBody } from './body.ts'
import { engineModel } from './catalog.ts'
import { edited, lacksUsage } from './edits.ts'
import type { Endpoint } from './endpoints.ts'
import type { Fields, Wishes } from './fields.ts'
import { quarterOfCharacters, severalAnswers } from './splitting.ts'
import type { Incoming } from './incoming.ts'
import type { Caller } from './keys.ts'
import type { Meters } from './prompt.ts'

/** A request that was understood: what the client wants, from whom, and where it may go. */
export interface Understood {
  readonly incoming: Incoming
  readonly endpoint: Endpoint
  readonly caller: Caller
  readonly body: JsonBody
  readonly fields: Fields
  readonly wishes: Wishes
  /** Name the client asked for. */
  readonly model: string
  readonly routes: readonly PoolRoute[]
  readonly pinned: Exchange['pinned']
}

/** Wishes that change how others are served need a key that allows them; `session` says no more than its header does. */
const GUARDED = ['policy', 'overlap_weight', 'temperature', 'priority', 'expected_output_tokens'] as const

/** Fails with `forbidden`, naming the wish. */
export function refuseWishes(wishes: Wishes, caller: Caller): void {
  if (caller.allowOverrides) return
  const wish = GUARDED.find((name) => wishes[name] !== undefined)
  if (wish === undefined) return
  throw new Failure('forbidden', `This key may not set firstlight.${wish}. Leave it out, or ask the operator for allow_overrides.`, {
    param: `firstlight.${wish}`,
  })
}

/** Should the stream be read on the way? Everything that is no stream is. `chance` in [0, 1). */
function shouldObserve({ stream, share, chance }: { stream: boolean; share: number; chance: number }): boolean {
  return !stream || chance < share
}

/** The body of one request for any of its pools, edited once a pool. */
function bodyFor(understood: Understood, includeUsage: boolean): Exchange['body'] {
  const { body, endpoint, caller, fields, model } = understood
  const made = new Map<string, readonly Uint8Array[]>()
  return ({ pool }, given) => {
    const name = engineModel(model, pool).model
    const cacheSalt = endpoint.salted ? saltOf(caller, fields) : null
    const leg = withoutHandOver(pool, body.json, given)
    // Every attempt has legs of its own: nothing to remember.
    if (leg !== undefined) return edited(body.bytes, body.json, { model: name, includeUsage: includeUsage && !leg.remove.includes('stream_options'), cacheSalt, leg })
    const known = made.get(name)
    if (known !== undefined) return known
    const pieces = edited(body.bytes, body.json, { model: name, includeUsage, cacheSalt })
    made.set(name, pieces)
    return pieces
  }
}

/** A client's own hand-over would name a prefill of somebody else's. NIXL's field is removed for every pool. */
function withoutHandOver({ split }: PoolSettings, json: JsonBody['json'], leg: BodyEdit | undefined): BodyEdit | undefined {
  if (split.connector !== 'response' || !Object.hasOwn(json, split.responseField)) return leg
  return { set: leg?.set ?? {}, remove: [...(leg?.remove ?? []), split.responseField] }
}

/** The tenant's salt, with the client's own inside it; null: as the client sent it. */
function saltOf(caller: Caller, fields: Fields): string | null {
  if (caller.cacheSalt === null) return null
  return fields.cache_salt ? `${caller.cacheSalt}:${fields.cache_salt}` : caller.cacheSalt
}

/** What admissions are made with: the pools' meters, and the lookups of what LMCache holds. */
type Making = Pick<Opening, 'meters' | 'lookups'>
type Admissions = Pick<Exchange, 'admission'> & Required<Pick<Exchange, 'onUsage' | 'hints'>>

/** Admissions of one request, measured once a pool: pools cut and tokenise differently. */
export function admissionFor(understood: Understood, { meters, lookups }: Making): Admissions {
  const made = new Map<PoolRoute, { admission: ReturnType<Exchange['admission']>; prompt: PromptMeasure; looked: boolean }>()
  const policy = understood.wishes.policy ?? null
  const of = (route: PoolRoute) => {
    const known = made.get(route)
    if (known !== undefined) return known
    const prompt = meters.measure(route, promptOf(understood, route, lookups.wanted(route, policy)))
    const fresh = { admission: admissionOf(understood, route, prompt), prompt, looked: false }
    made.set(route, fresh)
    return fresh
  }
  return {
    admission: (route) => of(route).admission,
    onUsage: (route, { promptTokens }) => {
      const known = made.get(route)
      if (known !== undefined) meters.learn(route, known.prompt, promptTokens)
    },
    hints: async (route) => {
      const known = of(route)
      if (known.looked || !lookups.wanted(route, policy)) return {}
      known.looked = true
      const { measure, known: found, stages } = await lookups.gather(route, prompted(understood, route, { own: known.prompt, meters }))
      known.prompt = measure
      known.admission = { ...admissionOf(understood, route, measure), ...found }
      return stages
    },
  }
}

/** The prompt as lookups take it. */
function prompted(understood: Understood, route: PoolRoute, { own, meters }: { readonly own: PromptMeasure; readonly meters: Meters }): Prompted {
  const request = promptOf(understood, route, true)
  return {
    ...engineModel(understood.model, route.pool),
    measure: own,
    salt: request.salts[0] ?? null,
    byEngine: (tokenizer, call) => meters.measureByEngine(route, { request, own }, tokenizer, call),
    background: (work) => understood.incoming.scope.background(work),
  }
}

function promptOf({ endpoint, body, caller, fields, model }: Understood, { pool }: PoolRoute, withIds: boolean): PromptRequest {
  const salt = endpoint.salted ? (saltOf(caller, fields) ?? fields.cache_salt ?? null) : null
  return {
    endpoint: endpoint.prompt,
    body: body.json,
    bodyBytes: body.bytes.byteLength,
    adapter: engineModel(model, pool).adapter,
    salts: salt === null ? [] : [salt],
    tenant: null,
    withIds,
  }
}

function admissionOf(understood: Understood, route: PoolRoute, prompt: PromptMeasure): ReturnType<Exchange['admission']> {
  const { incoming, caller, body, fields, wishes } = understood
  const { model, adapter } = engineModel(understood.model, route.pool)
  return {
    version: PAYLOAD_VERSION,
    id: incoming.id,
    model,
    adapter,
    promptTokens: prompt.promptTokens,
    tokenSource: prompt.tokenSource,
    blocks: prompt.blocks,
    session: sessionOf(understood, route),
    priority: caller.allowOverrides ? (wishes.priority ?? fields.priority ?? 0) : 0,
    expectedOutputTokens: wishes.expected_output_tokens ?? null,
    tenant: caller.tenant,
    overrides: overridesOf(wishes),
    hints: null,
    unsplittable: unsplittable(understood, route),
    encodeItems: prompt.items,
    ...(route.pool.split.estimate === 'chars4' ? { splitTokens: quarterOfCharacters(body.json) } : {}),
  }
}

/** Why the request cannot be split; null: it can. */
function unsplittable({ endpoint, body }: Understood, { pool: { split } }: PoolRoute): string | null {
  const found = endpoint.unsplittable ?? severalAnswers(body.json)
  return found === null && split.connector === 'lmcache' ? unsplittableByLmcache(endpoint.path, body.json, split.lmcache.chat) : found
}

const SESSION_CHARS = 512

/** What makes requests one conversation: said outright, or in the pool's header, or in its body field. */
function sessionOf({ incoming, body, wishes }: Understood, { pool }: PoolRoute): string | null {
  if (wishes.session !== undefined) return wishes.session
  const header = incoming.request.headers.get(pool.session.header)
  if (header !== null && header !== '') return header.slice(0, SESSION_CHARS)
  const field = pool.session.body === null || !Object.hasOwn(body.json, pool.session.body) ? null : body.json[pool.session.body]
  if (typeof field === 'string' && field !== '') return field.slice(0, SESSION_CHARS)
  return typeof field === 'number' ? String(field) : null
}

function overridesOf({ policy, overlap_weight: overlapWeight, temperature }: Wishes): Overrides | null {
  if (policy === undefined && overlapWeight === undefined && temperature === undefined) return null
  return {
    ...(policy === undefined ? {} : { policy }),
    ...(overlapWeight === undefined ? {} : { overlapWeight }),
    ...(temperature === undefined ? {} : { temperature }),
  }
}

interface Opening {
  readonly meters: Meters
  readonly lookups: CacheLookups
  readonly configVersion: number
  readonly heartbeatMs: number
  /** Since the request came in. */
  readonly elapsedMs: () => number
  /** In [0, 1): decides whether a stream is observed. */
  readonly chance: number
}

/** Everything `forward` needs. */
export function openExchange(understood: Understood, { meters, lookups, configVersion, heartbeatMs, elapsedMs, chance }: Opening): Exchange {
  const { incoming, endpoint, body, fields, routes, pinned } = understood
  const stream = endpoint.streams && fields.stream === true
  const observe = shouldObserve({ stream, share: routes[0]!.pool.observeShare, chance })
  const hideUsage = stream && observe && endpoint.usageOnRequest && lacksUsage(body.json)
  const { admission, onUsage, hints } = admissionFor(understood, { meters, lookups })
  const edge = elapsedMs()
  admission(routes[0]!)
  return {
    id: incoming.id,
    requestId: incoming.requestId,
    receivedAt: incoming.receivedAt,
    method: 'POST',
    path: endpoint.path + incoming.query,
    headers: headersForEngine(incoming.request.headers, incoming.requestId),
    body: bodyFor(understood, hideUsage),
    json: body.json,
    stream,
    observe,
    hideUsage,
    admission,
    hints,
    heartbeatMs: stream ? heartbeatMs : 0,
    routes,
    configVersion,
    pinned,
    stages: { edge, tokens: elapsedMs() - edge },
    scope: incoming.scope,
    signal: incoming.request.signal,
    onUsage,
  }
}
