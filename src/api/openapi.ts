/**
 * OpenAPI 3.1 document of the admin API, served at `/openapi.json`. Tests compare its paths with the routes and its
 * schemas with responses of both runtimes.
 */
import { PAUSE_MODES } from '../engines/engine-type.ts'
import type { RequestContext } from './request-context.ts'
import { jsonResponse } from './json-response.ts'
import { VERSION } from '../version.ts'

type Schema = Readonly<Record<string, unknown>>

const text = { type: 'string' } as const
const number = { type: 'number' } as const
const flag = { type: 'boolean' } as const
const orNull = (schema: Schema): Schema => ({ anyOf: [schema, { type: 'null' }] })
const described = (description: string, schema: Schema): Schema => ({ ...schema, description })
const listOf = (items: Schema): Schema => ({ type: 'array', items })
const mapOf = (values: Schema): Schema => ({ type: 'object', additionalProperties: values })
const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

/** Object whose keys that end in `?` are optional. Clients must ignore unknown keys. */
function object(properties: Readonly<Record<string, Schema>>): Schema {
  const names = Object.keys(properties)
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name.replace(/\?$/, ''), properties[name]])),
    required: names.filter((name) => !name.endsWith('?')),
  }
}

const milliseconds = described('Milliseconds since the epoch.', number)
const stages = described('Milliseconds of each stage (docs/traces.md).', mapOf(number))

const gateway = {
  version: text,
  config_version: number,
  started_at: milliseconds,
  draining: flag,
  'config_refused_at?': described('When a newer configuration was refused.', milliseconds),
  'replicas?': described('Replicas that share bookings.', listOf({ type: 'object' })),
  'shared?': described('Workers: state is shared by the isolates of this edge.', flag),
  'isolates?': described('Workers: isolates that reported.', number),
}

/** Absent: no pool counts costs. */
const costFields = {
  'attempts?': described('Attempts whose cost was counted.', number),
  'engine_s?': described('Share in the busy time of the engines, seconds.', number),
  'saved_s?': described('Prefill that cached tokens have saved, seconds.', number),
  'money?': described('By `price_per_engine_hour`.', number),
} as const

const keyView = object({
  name: text,
  source: described('`issued`: made at run time.', { enum: ['configuration', 'issued'] }),
  'owner?': orNull(text),
  team: orNull(text),
  models: orNull(listOf(text)),
  regions: orNull(listOf(text)),
  class: { enum: ['critical', 'standard', 'sheddable'] },
  weight: number,
  priority: orNull(number),
  allow_overrides: flag,
  ttft_deadline_ms: orNull(number),
  limits: orNull({ type: 'object' }),
  'expires?': orNull(text),
  'created_at?': milliseconds,
  'edge?': flag,
  'secrets?': described('Times of each secret of a configured key.', listOf({ type: 'object' })),
  'usage?': { type: 'object' },
})

const names = listOf(text)
const affected = { requests: number, keys: number, models: number, 'key_names?': names, 'model_names?': names }

const schemas: Readonly<Record<string, Schema>> = {
  Error: object({
    error: object({ message: text, type: text, param: orNull(text), code: text, 'request_id?': text }),
  }),
  Engine: object({
    id: text,
    'server?': described('Server of which the engine is a data-parallel rank.', text),
    'ignores_ranks?': described('The server ignores the choice of a rank, so its ranks are one engine.', flag),
    role: { enum: ['any', 'prefill', 'decode', 'encode'] },
    weight: number,
    available: described('The engine accepts new requests.', flag),
    healthy: flag,
    'problem?': described('Why the last probe failed.', text),
    'last_failure?': described('Last failed attempt.', object({ failure: text, at: milliseconds })),
    'condition?': { enum: ['well', 'suspect', 'wedged', 'unreachable', 'faulty', 'saturated', 'slow'] },
    'condition_since?': milliseconds,
    'hurt?': described(
      'Requests that wait there for a first token. `gave_up`: their clients have left. Absent: it is `well`.',
      object({ ...affected, 'gave_up?': object(affected) }),
    ),
    'changes?': described(
      'Last changes of its state, oldest first: health, circuit, use (draining, asleep, paused) and condition.',
      listOf(object({ at: milliseconds, aspect: text, to: text, 'reason?': text })),
    ),
    'abandoned_total?': described('Requests whose client left before the first token.', number),
    'residents?': described(
      'Adapters that the gateway has loaded on demand on the server, and counts of loads, unloads and failures.',
      object({ loaded: listOf(text), loads: number, unloads: number, failures: number }),
    ),
    'rescued_total?': described('Requests that another engine got because this one was wedged.', number),
    'compared?': described(
      'Answers of the semantic canary.',
      object({ total: number, disagreed: number, stands_out_since: orNull(milliseconds) }),
    ),
    'context_tokens?': described('Longest prompt with output.', number),
    'engine_version?': described('Version that the engine reports.', text),
    draining: flag,
    'move_at?': milliseconds,
    asleep: flag,
    'paused?': object({ keeps: flag, weights: orNull(text) }),
    circuit: { enum: ['closed', 'open', 'probing'] },
    requests: described('Requests of this gateway in flight.', number),
    'active_blocks?': number,
    'queued_prefill_s?': described('Predicted time until the queued prompts are computed.', number),
    'queued_prefill_tokens?': number,
    'queued_prefill_work?': number,
    'cached_blocks?': number,
    'cache_blocks?': orNull(number),
    ttft_ms: orNull(number),
    'recent_ttft_ms?': listOf(number),
    'hit_rate?': orNull(number),
    requests_total: number,
    failures_total: number,
    'ejections_withheld?': number,
    'counted_before?': object({ requests: number, failures: number }),
    'stats?': orNull(described('Load that the engine reports.', ref('EngineStats'))),
    'learned?': described('Learned speed and cache of the engine.', { type: 'object' }),
    'kv_feed?': { type: 'object' },
  }),
  UnknownEngine: object({ id: text, role: text, available: { type: 'null' } }),
  EngineStats: object({
    running: number,
    waiting: number,
    kv_usage: orNull(number),
    block_tokens: orNull(number),
    cache_blocks: orNull(number),
    prefix_caching: orNull(flag),
    adapters: orNull(object({ running: listOf(text), max: orNull(number) })),
    age_ms: number,
  }),
  Pool: object({
    cluster: text,
    region: orNull(text),
    model: text,
    aliases: listOf(text),
    adapters: listOf(text),
    policy: text,
    slo: described(
      'Latency objectives.',
      orNull(object({ ttft_ms: orNull(number), ttft_ms_per_1k_tokens: orNull(number), itl_ms: orNull(number) })),
    ),
    reachable: described('false: the state of the pool could not be read.', flag),
    'bookings?': orNull(number),
    'queue?': described('Requests that wait for room.', object({ requests: number, oldest_ms: number })),
    'capacity?': described(
      'Capacity in terms of `slo`, by role of the engines.',
      listOf(
        object({
          role: text,
          replicas: number,
          needed_engines: number,
          requests_per_s: number,
          spare_requests_per_s: orNull(number),
          exhaustion_s: orNull(number),
        }),
      ),
    ),
    'capacity_error?': described(
      'Minutes of the last hour in which requests came, and in how many of them the capacity was wrong.',
      object({ minutes: number, overstated: number, understated: number }),
    ),
    'at?': milliseconds,
    'seq?': number,
    'config_version?': number,
    engines: listOf({ anyOf: [ref('Engine'), ref('UnknownEngine')] }),
    'gateway?': described('Digest of the gateway behind this pool.', { type: 'object' }),
    'region_engines?': described(
      'Engines at the gateway behind this pool, each with its cluster there. null: it did not answer.',
      orNull(listOf({ type: 'object' })),
    ),
    'lookups?': described('LMCache lookups.', orNull({ type: 'object' })),
  }),
  Fleet: object({ ...gateway, pools: listOf(ref('Pool')) }),
  Usage: object({
    since: { type: 'string', format: 'date-time' },
    keys: listOf(
      object({
        key: text,
        requests: number,
        refused: number,
        prompt_tokens: number,
        cached_tokens: number,
        output_tokens: number,
        ...costFields,
      }),
    ),
    'budgets?': described('Budgets of keys and teams of the configuration.', listOf({ type: 'object' })),
    'teams?': listOf(object({ team: text, ...costFields })),
    'models?': listOf(object({ model: text, ...costFields })),
  }),
  Placement: object({
    kind: { enum: ['whole', 'split', 'staged'] },
    'engine?': text,
    'prefill?': orNull(text),
    'decode?': text,
    'encode?': listOf(text),
    runners_up: listOf(text),
  }),
  Decision: object({
    id: text,
    at: milliseconds,
    cluster: text,
    pool: text,
    model: text,
    attempt: number,
    'session?': described('Session that the client names.', text),
    prompt_tokens: number,
    token_source: text,
    policy: text,
    fallback: orNull(object({ from: text, reason: text })),
    placement: ref('Placement'),
    'split?': object({ taken: flag, why: text }),
    candidates: listOf(object({ engine: text, cost: number, terms: mapOf(number) })),
    excluded: listOf(object({ engine: text, reason: text })),
    'panic?': flag,
    'moved_from?': text,
    'waited_ms?': number,
    predicted_ttft_ms: orNull(number),
    predicted_cached_tokens: orNull(number),
    shadow: orNull({ type: 'object' }),
    'retry_refused?': text,
    'first_token?': object({ ttft_ms: number, stages }),
    actual: orNull(object({ ttft_ms: orNull(number), cached_tokens: orNull(number), result: text, 'stages?': stages })),
  }),
  Request: object({
    request: object({
      id: text,
      request_id: text,
      received_at: milliseconds,
      path: text,
      model: orNull(text),
      tenant: orNull(text),
      status: orNull(number),
    }),
    stages_ms: stages,
    record: orNull({ type: 'object' }),
    ttft_report: orNull({ type: 'object' }),
    'region?': described('Answer of the region that has the request, with its cluster here.', { type: 'object' }),
    decision: orNull(ref('Decision')),
  }),
  WeightedModels: object({
    weighted_models: listOf(object({ name: text, targets: listOf(ref('Target')) })),
  }),
  Target: object({
    model: text,
    weight: number,
    keys: listOf(text),
    stopped_since: orNull(milliseconds),
    requests: number,
    refused: number,
    failed: number,
    mean_ttft_ms: orNull(number),
    mean_token_ms: orNull(number),
    mean_output_tokens: orNull(number),
  }),
  Keys: object({ issued_keys: described('Keys can be created at run time.', flag), keys: listOf(ref('Key')) }),
  Key: keyView,
  NewKey: { allOf: [ref('Key'), object({ key: described('The secret.', text) })] },
  RevokedKey: object({ name: text, revoked: flag }),
  DryRun: object({ decision: orNull(ref('Decision')), refusals: listOf({ type: 'object' }) }),
  Drain: object({
    cluster: text,
    'region_cluster?': described('Cluster of the engine at the gateway of its region.', text),
    engine: text,
    draining: flag,
    'move_at?': milliseconds,
  }),
  Pause: object({ pool: text, mode: { enum: [...PAUSE_MODES] }, paused: flag, engines: ref('PausedEngines') }),
  Resume: object({ pool: text, resumed: flag, engines: ref('PausedEngines') }),
  PausedEngines: listOf(object({ cluster: text, engine: text, state: text, weight_version: orNull(text) })),
  Ready: object({ status: { enum: ['ready', 'not_ready'] }, 'reason?': text }),
}

const ADMIN = [{ admin: [] }]
const PUBLIC: readonly never[] = []

interface Operation {
  readonly summary: string
  /** Name of the schema of a 200 response; null: `media`. */
  readonly schema: string | null
  readonly media?: string
  readonly security?: readonly unknown[]
  readonly query?: Readonly<Record<string, string>>
  readonly body?: string
}

const operations: Readonly<Record<string, Operation>> = {
  'get /health': { summary: 'Liveness.', schema: null, media: 'application/json', security: PUBLIC },
  'get /ready': { summary: 'Readiness; 503 while draining.', schema: 'Ready', security: PUBLIC },
  'get /version': { summary: 'Version.', schema: null, media: 'application/json', security: PUBLIC },
  'get /metrics': { summary: 'Metrics in Prometheus text format.', schema: null, media: 'text/plain' },
  'get /openapi.json': { summary: 'This document.', schema: null, media: 'application/json', security: PUBLIC },
  'get /v1/firstlight/fleet': { summary: 'Every pool and engine with their state.', schema: 'Fleet' },
  'get /v1/firstlight/live': {
    summary: 'Server-sent events: one view of the fleet per second.',
    schema: null,
    media: 'text/event-stream',
  },
  'get /v1/firstlight/usage': { summary: 'Requests, tokens and costs of each key, team and model.', schema: 'Usage' },
  'get /v1/firstlight/weighted-models': {
    summary: 'Targets of weighted models: state, and results since the start.',
    schema: 'WeightedModels',
  },
  'get /v1/firstlight/keys': { summary: 'Keys of clients, without secrets.', schema: 'Keys' },
  'post /v1/firstlight/keys': {
    summary: 'Creates a key. Only this response contains its secret.',
    schema: 'NewKey',
    body: 'Name and rights of the key, as in `keys` of the configuration.',
  },
  'delete /v1/firstlight/keys/{id}': { summary: 'Revokes a key that was created at run time.', schema: 'RevokedKey' },
  'post /v1/firstlight/route': {
    summary: 'Dry run: ranks the request in the body without sending it.',
    schema: 'DryRun',
    query: { endpoint: 'Path of the request, such as /v1/completions. Default: /v1/chat/completions.' },
    body: 'Body of an inference request.',
  },
  'get /v1/firstlight/decisions/{id}': { summary: 'One routing decision with its candidates.', schema: 'Decision' },
  'get /v1/firstlight/requests/{id}': { summary: 'One request: decision, stages, record.', schema: 'Request' },
  'post /v1/firstlight/engines/{id}/drain': {
    summary: 'Removes an engine from routing. Running requests continue.',
    schema: 'Drain',
    query: {
      cluster: 'Cluster of the engine, if its name is ambiguous, or of a region that has the engine.',
      region_cluster: 'Cluster of the engine at the gateway of its region, if its name is ambiguous there.',
      deadline_s: 'Seconds after which streams that can be continued move to another engine.',
    },
  },
  'post /v1/firstlight/pools/{id}/pause': {
    summary: 'Holds the requests of a pool back and pauses its engines. 502: an engine could not be paused.',
    schema: 'Pause',
    query: {
      mode: 'What happens to running requests: wait, abort or keep.',
      timeout_s: 'Longest wait for running requests, seconds. Default: 300.',
      cluster: 'Cluster of the pool. Default: all that have it.',
    },
  },
  'post /v1/firstlight/pools/{id}/resume': {
    summary: 'Resumes a paused pool. Answers that would mix two versions of the weights end or are generated again.',
    schema: 'Resume',
    query: {
      weights: 'compare (default): versions that differ or are unknown count as changed. same: nothing changed.',
      cluster: 'Cluster of the pool. Default: all that have it.',
    },
  },
  'post /v1/firstlight/engines/{id}/undrain': {
    summary: 'Returns an engine to routing.',
    schema: 'Drain',
    query: {
      cluster: 'Cluster of the engine, if its name is ambiguous, or of a region that has the engine.',
      region_cluster: 'Cluster of the engine at the gateway of its region, if its name is ambiguous there.',
    },
  },
}

const parameter = (name: string, place: 'path' | 'query', description: string): Schema => ({
  name,
  in: place,
  required: place === 'path',
  description,
  schema: text,
})

function operationOf(key: string, { summary, schema, media, security = ADMIN, query = {}, body }: Operation): Schema {
  const content = { [media ?? 'application/json']: schema === null ? {} : { schema: ref(schema) } }
  const parameters = [
    ...(key.includes('{id}') ? [parameter('id', 'path', 'Engine, key, decision or request.')] : []),
    ...Object.entries(query).map(([name, description]) => parameter(name, 'query', description)),
  ]
  const failure = { description: 'Error.', content: { 'application/json': { schema: ref('Error') } } }
  return {
    operationId: key.replaceAll(/[^a-z]+/g, '_').replaceAll(/_$/g, ''),
    summary,
    security,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : { requestBody: { description: body, required: true, content: { 'application/json': {} } } }),
    responses: { 200: { description: 'Success.', content }, default: failure },
  }
}

function pathsOf(): Readonly<Record<string, Record<string, Schema>>> {
  const paths: Record<string, Record<string, Schema>> = {}
  for (const [key, operation] of Object.entries(operations)) {
    const [method, path] = key.split(' ') as [string, string]
    paths[path] = { ...paths[path], [method]: operationOf(key, operation) }
  }
  return paths
}

let document: Schema | null = null

/** Built at the first request, because an isolate may never need it. @testing */
export const openApiDocument = (): Schema =>
  (document ??= {
    openapi: '3.1.0',
    info: {
      title: 'Firstlight admin API',
      version: VERSION,
      description: 'Operation of the gateway. Inference routes follow OpenAI’s API: docs/api.md.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    paths: pathsOf(),
    components: {
      schemas,
      securitySchemes: { admin: { type: 'http', scheme: 'bearer', description: '`admin.secret`' } },
    },
  })

export const openApi = (incoming: RequestContext): Response => jsonResponse(incoming, openApiDocument())
