import type { Exchange, PoolRoute } from '../origin/exchange.ts'
import { rejectExchange } from '../origin/forward.ts'
import { Failure } from '../failure.ts'
import { readJson, type JsonBody } from './body.ts'
import { assertAccepting, type GatewayContext } from './context.ts'
import type { Endpoint } from './endpoints.ts'
import { InferenceExchange, authorizeOptions, type InferenceRequest } from './inference-exchange.ts'
import { readFields, readOptions, type Fields } from './fields.ts'
import { readForm } from './forms.ts'
import type { StoredResponse } from '../ports.ts'
import type { RequestContext } from './request-context.ts'
import type { Caller } from './auth.ts'
import { isJsonObject } from '../core/json.ts'
import type { LimitsConfig } from '../config.ts'
import { Utf8Text, isText, type Text } from '../core/tokens/utf8.ts'
import { matchesHost } from '../url.ts'

/** Smaller bodies are processed without yielding. */
const TURNS_BYTES = 4 * 1024 * 1024

/** Handles a POST to an engine: authentication, body, overrides, routing. */
export async function proxy(context: GatewayContext, endpoint: Endpoint, incoming: RequestContext): Promise<Response> {
  const caller = await context.authenticator.caller(incoming.request.headers, endpoint.shape === 'anthropic')
  incoming.logFields['tenant'] = caller.tenant
  assertAccepting(context)
  const parsed = await parseInferenceRequest(context, endpoint, incoming, caller)
  const name = context.repeated.check(context, parsed)
  // Parsing, measuring and sending a long prompt take some 20 ms each, so other requests run in between.
  const turn = parsed.body.bytes.length < TURNS_BYTES ? undefined : context.ports.yieldToEventLoop
  await turn?.()
  const exchange = new InferenceExchange(context, parsed, context.ports.random())
  if (endpoint.storesResponses) exchange.onResponseId = keepResponse(context, parsed)
  incoming.logFields['model'] = parsed.model
  incoming.logFields['stream'] = exchange.stream
  await turn?.()
  await reserveLimits(context, exchange)
  try {
    return await context.forward(exchange)
  } catch (error) {
    context.repeated.failed(context, error, parsed, name)
    throw error
  }
}

/** Rejects with `rate_limited`. A carrier that is unreachable limits nothing. */
async function reserveLimits(context: GatewayContext, exchange: InferenceExchange): Promise<void> {
  try {
    await exchange.reserve(context)
  } catch (error) {
    if (!(error instanceof Failure)) return context.ports.log.warn('key_limit_unavailable', { error })
    rejectExchange(exchange, error, context.ports.now())
    throw error
  }
}

/** Reads and validates a request up to routing. */
export async function parseInferenceRequest(
  context: GatewayContext,
  endpoint: Endpoint,
  incoming: RequestContext,
  caller: Caller,
): Promise<InferenceRequest> {
  const { form } = endpoint
  const { limits } = context.config
  const { request, memory } = incoming
  const body = form
    ? await readForm(request, limits, memory)
    : await readJson(request, limits, { parseLong: context.ports.parseLong, memory })
  const { json } = body
  // Fields of a form are texts. The gateway uses only these two.
  const fields = readFields(form ? { model: json['model'], stream: json['stream'] } : json)
  const asked = readOptions(form ? null : json, incoming.request.headers.get('x-firstlight-options'))
  authorizeOptions(asked, caller)
  authorizePriority(json, caller, form)
  const options = caller.priority === null ? asked : { ...asked, priority: caller.priority }
  const stored = endpoint.storesResponses ? await storedResponseOf(context, fields, caller) : null
  const model = modelOf(context, fields, caller, stored)
  const offer = context.catalog.offer(model, caller)
  enforceLimits(body, limits)
  const routes = stored === null ? offer.routes : [routeOf(context, stored)]
  return { incoming, endpoint, caller, body, fields, options, model, routes, pinned: stored }
}

function modelOf(context: GatewayContext, fields: Fields, caller: Caller, stored: StoredResponse | null): string {
  if (fields.model) return fields.model
  if (stored !== null) return stored.model
  throw new Failure('model_missing', `The request names no model. ${context.catalog.hint(caller)}`, { param: 'model' })
}

async function storedResponseOf(
  context: GatewayContext,
  fields: Fields,
  caller: Caller,
): Promise<StoredResponse | null> {
  const id = fields.previous_response_id
  if (id === undefined || id === null) return null
  const stored = await context.storedResponses.find(id, caller.tenant)
  if (stored !== null) return stored
  throw new Failure(
    'not_found',
    `This gateway does not know which engine holds response '${id.slice(0, 100)}': it was never served here, ` +
      `or is forgotten. Send the conversation again in \`input\`, without previous_response_id.`,
    { param: 'previous_response_id' },
  )
}

export function routeOf(context: GatewayContext, stored: StoredResponse): PoolRoute {
  const route = context.catalog.route(stored.cluster, stored.pool)
  if (route !== null && route.targets.has(stored.engine)) return route
  throw new Failure(
    'not_found',
    'The engine that held this response is no longer part of the fleet. Send the conversation again in `input`.',
  )
}

function keepResponse(
  context: GatewayContext,
  { caller, model, routes }: InferenceRequest,
): NonNullable<Exchange['onResponseId']> {
  return ({ cluster, engine }, id) => {
    const route = routes.find((one) => one.cluster.id === cluster && one.targets.has(engine))
    if (route === undefined) return
    context.storedResponses.keep(id, { tenant: caller.tenant, cluster, pool: route.pool.model, engine, model })
  }
}

/* Fields of a body that need permission or that no client may send, and caps on what a request asks for. */

/*
 * Hosts from which engines would fetch images, audio, videos and files. The engine's URL parser differs from ours, so a
 * URL that is not plainly `http(s)://HOST[:PORT][/…]` is refused instead of interpreted.
 */

/** A URL whose host is not allowed. `shown` leaves out the path, because paths may be signed. */
interface ForeignMedia {
  readonly field: string
  readonly shown: string
}

/** Members of a content part of OpenAI and vLLM: a URL, or an object with `url`. */
const URL_FIELDS: ReadonlySet<string> = new Set(['image_url', 'audio_url', 'video_url', 'file_url'])
/** Members of a part or a source whose `type` names its content (Anthropic, Hugging Face). */
const PART_FIELDS = ['url', 'image', 'audio', 'video', 'file'] as const
const PART_TYPE = /^(?:input_)?(?:url|image|audio|video|document|file)(?:_url)?$/
/** Engines do not fetch URLs from tool schemas. */
const NO_MEDIA = 'tools'

const PLAIN_URL = /^https?:\/\/([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:[/?#]|$)/i
const HEAD_BYTES = 5
const text = new TextDecoder()

/**
 * First URL in the body whose host is not one of `hosts`; `*.example.com` stands for every host below it. null: none.
 */
function foreignMedia(json: Readonly<Record<string, unknown>>, hosts: readonly string[]): ForeignMedia | null {
  for (const name in json) {
    const found = name === NO_MEDIA ? null : foreignIn(json[name], name, hosts)
    if (found !== null) return found
  }
  return null
}

function foreignIn(value: unknown, field: string, hosts: readonly string[]): ForeignMedia | null {
  if (isText(value)) return URL_FIELDS.has(field) ? check(value, field, hosts) : null
  if (typeof value !== 'object' || value === null) return null
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) {
      const found = foreignIn(item, field, hosts)
      if (found !== null) return found
    }
    return null
  }
  const part = value as Readonly<Record<string, unknown>>
  const found = foreignInPart(part, field, hosts)
  if (found !== null) return found
  for (const name in part) {
    const inner = foreignIn(part[name], name, hosts)
    if (inner !== null) return inner
  }
  return null
}

function foreignInPart(
  part: Readonly<Record<string, unknown>>,
  field: string,
  hosts: readonly string[],
): ForeignMedia | null {
  const { url, type } = part
  if (URL_FIELDS.has(field) && isText(url)) return check(url, field, hosts)
  if (typeof type !== 'string' || !PART_TYPE.test(type)) return null
  for (const name of PART_FIELDS) {
    const value = part[name]
    // Base64 has no colon.
    const found = isText(value) && !isData(value) && String(value).includes(':') ? check(value, name, hosts) : null
    if (found !== null) return found
  }
  return null
}

function check(value: Text, field: string, hosts: readonly string[]): ForeignMedia | null {
  if (isData(value)) return null
  const url = String(value)
  const host = PLAIN_URL.exec(url)?.[1]?.toLowerCase()
  // Parsers disagree on these characters: some read the host after them.
  if (host === undefined || /[\\\s]/.test(url)) return { field, shown: 'what is no plain http(s) URL' }
  return hosts.some((allowed) => matchesHost(host, allowed)) ? null : { field, shown: `the host ${host.slice(0, 100)}` }
}

/** Most media are megabytes in a `data:` URL, so only the first letters are decoded. */
const isData = (value: Text): boolean =>
  /^data:/i.test(
    value instanceof Utf8Text ? text.decode(value.utf8.subarray(0, HEAD_BYTES)) : value.slice(0, HEAD_BYTES),
  )

type Json = Readonly<Record<string, unknown>>
type RequestLimits = Pick<LimitsConfig, 'maxN' | 'maxOutputTokens' | 'maxJsonDepth' | 'mediaHosts' | 'deniedFields'>

/** Engines that are gateways themselves (LiteLLM) merge this object into the body. */
const EXTRA_BODY = 'extra_body'
const CHOICES = ['n', 'best_of'] as const
const OUTPUT_TOKENS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const

/**
 * Rejects a `priority` that would reach an engine's queue from a key that may not set it. In JSON the key's priority
 * replaces the client's; a form cannot be edited. Fails with `forbidden`.
 */
function authorizePriority(json: Json, caller: Caller, isForm: boolean): void {
  const mayChoose = caller.allowOverrides && caller.priority === null
  if (mayChoose) return
  const isReplaced = caller.priority !== null && !isForm
  if (!isReplaced && Object.hasOwn(json, 'priority')) throw priorityFailure('priority')
  const extra = json[EXTRA_BODY]
  if (isJsonObject(extra) && Object.hasOwn(extra, 'priority')) throw priorityFailure(`${EXTRA_BODY}.priority`)
}

const priorityFailure = (param: string): Failure =>
  new Failure(
    'forbidden',
    `This key may not set ${param}. Leave it out, or ask the operator for allow_overrides or a priority of this key.`,
    { param },
  )

/** Rejects requests beyond the configured limits. Fails with `bad_value`, which names field, value and limit. */
function enforceLimits({ bytes, json }: JsonBody, limits: RequestLimits): void {
  enforceFields(json, '', limits)
  const extra = json[EXTRA_BODY]
  if (isJsonObject(extra)) enforceFields(extra, `${EXTRA_BODY}.`, limits)
  const { maxJsonDepth, mediaHosts } = limits
  // A level takes at least two bytes.
  if (bytes.length > 2 * maxJsonDepth && isDeeper(json, maxJsonDepth))
    throw new Failure(
      'bad_value',
      `The body is nested more than ${maxJsonDepth} levels deep (limits.max_json_depth). Send a flatter document.`,
    )
  if (mediaHosts === null) return
  const foreign = foreignMedia(json, mediaHosts)
  if (foreign !== null)
    throw new Failure(
      'bad_value',
      `${foreign.field} names ${foreign.shown}, which is not allowed here (limits.media_hosts). Send the media ` +
        `as a data: URL${mediaHosts.length === 0 ? '' : ', or from an allowed host'}.`,
      { param: foreign.field },
    )
}

function enforceFields(fields: Json, prefix: string, limits: RequestLimits): void {
  for (const name of limits.deniedFields)
    if (Object.hasOwn(fields, name))
      throw new Failure(
        'bad_value',
        `${prefix}${name} may not be sent by clients (limits.denied_fields). Leave it out.`,
        { param: prefix + name },
      )
  const { maxN, maxOutputTokens } = limits
  for (const name of CHOICES) cap(fields[name], prefix + name, maxN, 'limits.max_n')
  if (maxOutputTokens !== null)
    for (const name of OUTPUT_TOKENS) cap(fields[name], prefix + name, maxOutputTokens, 'limits.max_output_tokens')
}

/** A text counts as its number, because pydantic reads `"100_000"` as one. The engine rejects other texts. */
function cap(value: unknown, param: string, most: number, limit: string): void {
  if (value === undefined) return
  const amount = typeof value === 'string' ? Number(value.slice(0, 400).replaceAll('_', '')) : value
  if (typeof amount !== 'number' || !(amount > most)) return
  throw new Failure('bad_value', `${param} is ${amount}: at most ${most} is allowed here (${limit}).`, { param })
}

/**
 * Whether the value is nested deeper than `most` levels. Members that a later one of the same name replaces are not
 * counted; parsers of engines have limits of their own.
 */
function isDeeper(value: object, most: number): boolean {
  if (most === 0) return true
  if (Array.isArray(value)) {
    for (const item of value as unknown[])
      if (typeof item === 'object' && item !== null && isNested(item) && isDeeper(item, most - 1)) return true
    return false
  }
  for (const name in value) {
    const member = (value as Json)[name]
    if (typeof member === 'object' && member !== null && isNested(member) && isDeeper(member, most - 1)) return true
  }
  return false
}

/** A long text is an object here, but not in the document. */
const isNested = (value: object): boolean => !(value instanceof Utf8Text)
