/**
 * The configuration document: every key, its default and its meaning. docs/config.md and the JSON Schema for
 * editors are generated from this file (`npm run docs`).
 */
import * as z from 'zod'
import { policy, defaultPolicy } from './policies.ts'
import { address, baseUrl, decimal, headerName, id, label, milliseconds, modelName, oneOf, secret, strict, whole } from './values.ts'

const say = (description: string) => ({ description })

const key = strict({
  name: id.meta(say('Who holds the key: stands in logs and metrics.')),
  secret: secret.meta(say('What clients send as `authorization: Bearer`.')),
  models: z.array(modelName).min(1).optional().meta(say('Models and aliases the key may use. Absent: all.')),
  allow_overrides: z.boolean().default(false).meta(say('May its requests choose the policy and its weights for themselves?')),
  cache_salt: secret.optional().meta(say('Keeps this key’s cached prefixes apart from everybody else’s, in the gateway and in the engines. Absent: shared.')),
})

const engine = strict({
  id: id.meta(say('Name of the engine, unique in its cluster.')),
  url: baseUrl.meta(say('Base URL, without `/v1`.')),
  role: oneOf(['any', 'prefill', 'decode', 'encode']).default('any').meta(say('What it may do.')),
  models: z.array(modelName).min(1).optional().meta(say('The model and adapters it serves, where it does not serve all of the pool’s.')),
  labels: z.record(id, label).prefault({}).meta(say('For people and metrics.')),
  weight: decimal(0, 1000).default(1).meta(say('Share of traffic relative to its siblings, for policies that weigh. 0: no new requests.')),
  key: secret.optional().meta(say('Sent as `authorization: Bearer`; vLLM’s `--api-key`.')),
  headers: z.record(headerName, secret).prefault({}).meta(say('Sent on every request, e.g. access tokens of a tunnel.')),
  binding: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'must be the name of a binding' }).optional()
    .meta(say('Workers only: fetch through this binding, for engines in a private network.')),
  max_in_flight: whole(1, 1_000_000).optional().meta(say('Requests it may hold at once. Absent: no limit of ours.')),
  prefix_caching: oneOf(['auto', 'on', 'off']).default('auto').meta(say('Does it keep prefixes? `auto`: believe its metrics.')),
  cache_blocks: whole(1, 100_000_000).optional().meta(say('KV blocks, of the pool’s `block_tokens`, that it can hold. Absent: from its metrics, or learned.')),
  rtt_ms: decimal(0, 10_000).default(0).meta(say('Network round trip from the gateway.')),
  profile: id.optional().meta(say('Hardware profile whose speed is assumed until the engine’s own is learned.')),
  lmcache_instance: z.string().min(1).max(255).optional().meta(say('Its LMCache instance id.')),
})

const split = strict({
  mode: oneOf(['always', 'never', 'threshold', 'uncached', 'adaptive']).optional()
    .meta(say('When prefill and decode go to different engines. Default: `always` when the pool has prefill engines, else `never`.')),
  threshold_tokens: whole(0, 100_000_000).default(2048).meta(say('`threshold`: prompts of this length and more are split. `uncached`: the same of the tokens that are not cached.')),
  connector: oneOf(['nixl', 'lmcache', 'response']).default('nixl').meta(say('How the KV cache travels.')),
  fallback: oneOf(['decode_only', 'fail']).default('decode_only').meta(say('When no prefill engine can be had.')),
})

const lmcache = strict({
  coordinator: baseUrl.optional().meta(say('Base URL of the multi-process coordinator.')),
  controller: baseUrl.optional().meta(say('Base URL of the legacy controller.')),
  registry: z.boolean().default(false).meta(say('The gateway itself is the registry.')),
  budget_ms: milliseconds().default(30).meta(say('A lookup that takes longer is given up; the request goes on without.')),
  shared: z.boolean().default(false).meta(say('Engines can read each other’s cache.')),
})

const poolLimits = strict({
  connect_ms: milliseconds().default(5000).meta(say('To open a connection to an engine.')),
  first_byte_ms: milliseconds().default(600_000).meta(say('From dispatch to the first body byte.')),
  prefill_ms: milliseconds().default(300_000).meta(say('For the prefill leg of a split request.')),
  idle_ms: milliseconds().default(60_000).meta(say('Longest silence between bytes of a stream. There is no limit on its length.')),
})

const pool = strict({
  model: modelName.meta(say('Base model, as the engines serve it.')),
  aliases: z.array(modelName).prefault([]).meta(say('Other names clients may use for it.')),
  adapters: z.array(modelName).prefault([]).meta(say('LoRA adapters served on top of it, by the engines’ names.')),
  policy: policy.default(defaultPolicy).meta(say('How an engine is chosen: a name, or `{ name: …, option: value }`.')),
  shadow: policy.optional().meta(say('A second policy that ranks the same requests and never acts; compare them in the decisions.')),
  block_tokens: whole(1, 4096).default(64).meta(say('Tokens in a block of the gateway’s books. Best a multiple of the engines’ block size.')),
  tokenizer: z.string().min(1).optional().meta(say('Compiled vocabulary: a file on Node, a key on Workers. Absent: bytes with a learned ratio.')),
  split: split.prefault({}).meta(say('Disaggregated prefill.')),
  lmcache: lmcache.optional().meta(say('Where to ask what LMCache holds. Absent: nobody is asked.')),
  limits: poolLimits.prefault({}).meta(say('Time limits.')),
  stats_interval_ms: milliseconds(100).default(10_000).meta(say('How often each engine’s `/health` and `/metrics` are read.')),
  observe_share: decimal(0, 1).optional().meta(say('Share of streams whose events are read on the way. Default: 1 on Node, 0.1 on Workers, where reading costs more.')),
  session: strict({
    header: headerName.default('x-session-id').meta(say('Request header that names the session.')),
    body: z.string().min(1).max(128).nullable().default('user').meta(say('Body field that names it when the header is absent. `null`: none.')),
  }).prefault({}).meta(say('What makes requests one conversation, for policies that keep those together.')),
  lease_ms: milliseconds(1000).default(60_000).meta(say('A booking without a sign of life for this long lapses.')),
  retry: strict({
    share: decimal(0, 1).default(0.2).meta(say('Retries allowed, as a share of requests.')),
    min_per_s: decimal(0, 1000).default(1).meta(say('Retries a second that are always allowed.')),
  }).prefault({}).meta(say('Budget for attempts on another engine, before the first byte.')),
  circuit: strict({
    failures: whole(1, 1000).default(3).meta(say('Consecutive failures that take an engine out.')),
    open_ms: milliseconds().default(10_000).meta(say('For how long, before one request may try it.')),
  }).prefault({}).meta(say('Circuit breaker of each engine.')),
  index_entries: whole(1000, 10_000_000).default(1_000_000).meta(say('Hard cap of the prefix index, entries over all engines; some 40 bytes each.')),
  engines: z.array(engine).min(1).meta(say('The model servers.')),
})

const cluster = strict({
  id: id.meta(say('Name of the cluster.')),
  region: id.optional().meta(say('Where it is, in your own words.')),
  location_hint: oneOf(['wnam', 'enam', 'sam', 'weur', 'eeur', 'apac', 'oc', 'afr', 'me']).optional()
    .meta(say('Workers only: where Cloudflare should keep the cluster’s books.')),
  generation: whole(1, 1_000_000).default(1).meta(say('Part of the names of the cluster’s objects: raise it to move them.')),
  weight: decimal(0, 1000).default(1).meta(say('Share of traffic relative to other clusters with the same model.')),
  pools: z.array(pool).min(1).meta(say('One per base model.')),
})

export const documentSchema = strict({
  version: whole(1, Number.MAX_SAFE_INTEGER).optional()
    .meta(say('Raise it with every change: cluster objects adopt only newer ones. Default: the file’s time of change on Node, the deployment’s on Workers.')),
  listen: address.default('127.0.0.1:8080').meta(say('Node only: HOST:PORT.')),
  open: z.boolean().default(false).meta(say('Serve anybody who can reach the gateway, without keys.')),
  keys: z.array(key).min(1).optional().meta(say('Who may call. Absent: anybody on a loopback address, else refused unless `open: true`.')),
  admin: strict({ secret: secret.meta(say('What administrators send as `authorization: Bearer`.')) }).optional()
    .meta(say('Access to `/v1/firstlight/*`.')),
  clusters: z.array(cluster).min(1).meta(say('Where the engines are.')),
  limits: strict({
    body_bytes: whole(1024, 1_073_741_824).default(33_554_432).meta(say('Largest request body.')),
    heartbeat_ms: whole(0, 3_600_000).default(15_000).meta(say('SSE comments to the client while an engine is silent for this long. 0: none.')),
    drain_ms: whole(0, 3_600_000).default(25_000).meta(say('How long running streams may finish after SIGTERM.')),
    response_ids: whole(0, 10_000_000).default(10_000).meta(say('Remembered owners of stored responses (`previous_response_id`).')),
  }).prefault({}).meta(say('Limits of the gateway itself.')),
  log: strict({
    level: oneOf(['debug', 'info', 'warn', 'error', 'silent']).default('info').meta(say('Prompts and keys are logged at no level.')),
  }).prefault({}).meta(say('Structured logs.')),
  ttft: strict({
    enabled: z.boolean().default(false).meta(say('Off: the routes answer 404, nothing is called or kept.')),
    listen: address.optional().meta(say('Node only: another HOST:PORT to take reports on.')),
    token: secret.optional().meta(say('What reporters send as `authorization: Bearer`. Absent: anybody who can reach the route.')),
    ttl_s: whole(1, 86_400).default(600).meta(say('How long a report is kept.')),
    max_requests: whole(1, 10_000_000).default(100_000).meta(say('How many requests’ reports are kept.')),
  }).prefault({}).meta(say('Reports of what each stage before the first token took.')),
}).meta({ title: 'Firstlight configuration' })

export type ConfigDocument = z.output<typeof documentSchema>
export type ClusterDocument = z.output<typeof cluster>
export type PoolDocument = z.output<typeof pool>
export type EngineDocument = z.output<typeof engine>
