/**
 * The configuration document: every key, its default and its meaning. docs/config.md and the JSON Schema for
 * editors are generated from this file (`npm run docs`); the Worker's build leaves the meanings out.
 */
import * as z from 'zod/mini'
import { policy, defaultPolicy } from './policies.ts'
import { address, baseUrl, decimal, hardware, headerName, id, label, milliseconds, modelName, oneOf, origins, otherwise, say, secret, secretText, shownSecret, strict, threads, whole, words } from './values.ts'

const key = strict({
  name: say(import.meta.bare || 'Who holds the key: `tenant` in the log.', id),
  secret: say(import.meta.bare || 'What clients send as `authorization: Bearer`.', shownSecret),
  models: say(import.meta.bare || 'Models and aliases the key may use. Absent: all.', z.optional(z.array(modelName).check(z.minLength(1)))),
  allow_overrides: say(import.meta.bare || 'May its requests choose the policy and its weights for themselves?', otherwise(z.boolean(), false)),
  edge: say(import.meta.bare || 'Another Firstlight before this one has the key: it may read what this one expects, `/v1/firstlight/outlook`.', otherwise(z.boolean(), false)),
  cache_salt: say(import.meta.bare || 'Keeps this key’s cached prefixes apart from everybody else’s, in the gateway and in the engines. Absent: shared.', z.optional(secretText)),
})

const socket = z.string().check(z.regex(/^(tcp|ipc):\/\/[^\s*]+$/, { error: 'must be an address to connect to, like tcp://10.0.0.1:5557' }))

const kvEvents = strict({
  endpoint: say(import.meta.bare || 'Its `endpoint`, as the bridge reaches it: `tcp://HOST:5557`.', socket),
  replay_endpoint: say(import.meta.bare || 'Its `replay_endpoint`. Absent: missed events cannot be asked for.', z.optional(socket)),
  topic: say(import.meta.bare || 'Its `topic`.', z.optional(words(255))),
})

const engine = strict({
  id: say(import.meta.bare || 'Name of the engine, unique in its cluster.', id),
  url: say(import.meta.bare || 'Base URL, without `/v1`.', baseUrl),
  discover: say(import.meta.bare || 'Node only. `dns`: every address that the host of `url` has is an engine, `ID-ADDRESS`, and comes and goes with it. Absent: the URL is one engine.', z.optional(oneOf(['dns']))),
  role: say(import.meta.bare || 'What it may do.', otherwise(oneOf(['any', 'prefill', 'decode', 'encode']), 'any')),
  models: say(import.meta.bare || 'The model and adapters it serves, where it does not serve all of the pool’s.', z.optional(z.array(modelName).check(z.minLength(1)))),
  labels: say(import.meta.bare || 'For people: `firstlight check` shows them. Nothing else reads them.', z.prefault(z.record(id, label), {})),
  weight: say(import.meta.bare || 'Share of traffic relative to its siblings, for policies that weigh. 0: no new requests.', otherwise(decimal(0, 1000), 1)),
  key: say(import.meta.bare || 'Sent as `authorization: Bearer`; vLLM’s `--api-key`.', z.optional(secret)),
  headers: say(import.meta.bare || 'Sent on every request, e.g. access tokens of a tunnel.', z.prefault(z.record(headerName, secretText), {})),
  binding: say(import.meta.bare || 'Workers only: fetch through this binding, for engines in a private network.', z.optional(z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'must be the name of a binding' })))),
  max_in_flight: say(import.meta.bare || 'Requests it may hold at once. Absent: no limit of ours.', z.optional(whole(1, 1_000_000))),
  prefix_caching: say(import.meta.bare || 'Does it keep prefixes? `auto`: believe its metrics.', otherwise(oneOf(['auto', 'on', 'off']), 'auto')),
  cache_blocks: say(import.meta.bare || 'KV blocks, of the pool’s `block_tokens`, that it can hold. Absent: from its metrics, or learned.', z.optional(whole(1, 100_000_000))),
  rtt_ms: say(import.meta.bare || 'Network round trip from the gateway.', otherwise(decimal(0, 10_000), 0)),
  profile: say(import.meta.bare || 'Hardware whose speed is assumed until the engine’s own is learned: GPU, count and billions of parameters, as in `h100-8b` or `a100x4-70b`.', z.optional(hardware)),
  lmcache_instance: say(import.meta.bare || 'Its LMCache instance id. Absent: found by host.', z.optional(words(255))),
  kv_events: say(import.meta.bare || 'Where it publishes KV events, vLLM’s `--kv-events-config`; `firstlight bridge` alone reads it. Absent: the bridge asks the engine.', z.optional(kvEvents)),
})

const ports = z.array(whole(1, 65_535)).check(z.minLength(1))

const receiver = strict({
  host: say(import.meta.bare || 'Host the prefill engines reach this decode engine’s LMCache under.', words(255)),
  init_ports: say(import.meta.bare || 'Its init ports, one per tensor-parallel rank.', ports),
  alloc_ports: say(import.meta.bare || 'Its alloc ports, one per tensor-parallel rank.', ports),
})

const lmcacheSplit = strict({
  decoders: say(import.meta.bare || 'Decode engine’s id → its receiver. Every engine that may decode needs one.', z.optional(z.record(id, receiver))),
  decoder: say(import.meta.bare || 'The receiver of the only decode engine, in place of `decoders`.', z.optional(receiver)),
  ready_url: say(import.meta.bare || 'Base URL of a bridge that knows which KV caches have arrived: `GET URL/REQUEST_ID?ranks=N` answers 200 once all have. Absent: nobody is asked.', z.optional(baseUrl)),
  ready_ms: say(import.meta.bare || 'How long to wait for it; then the decode engine computes the prompt itself.', otherwise(milliseconds(), 5000)),
  chat: say(import.meta.bare || 'Split chats too. Turn it off where engines run a reasoning or tool parser: the decode leg is a completion, which no parser reads.', otherwise(z.boolean(), true)),
})

const encode = strict({
  concurrency: say(import.meta.bare || 'Items of one request that are encoded at the same time.', otherwise(whole(1, 256), 8)),
  cached_items: say(import.meta.bare || 'Items remembered as encoded and not sent again, by content. 0: none.', otherwise(whole(0, 10_000_000), 10_000)),
  limit_ms: say(import.meta.bare || 'For one item.', otherwise(milliseconds(), 60_000)),
})

/** Of `split.threshold_tokens`, where nobody says. */
export const THRESHOLD_TOKENS = 2048

const split = strict({
  mode: say(import.meta.bare || 'When prefill and decode go to different engines. Default: `always` when the pool has prefill engines, else `never`.', z.optional(oneOf(['always', 'never', 'threshold', 'uncached', 'adaptive']))),
  threshold_tokens: say(import.meta.bare || '`threshold`: prompts of this length and more are split; 0 or less: all. `uncached`: the same of the tokens that are not cached.', otherwise(whole(-100_000_000, 100_000_000), THRESHOLD_TOKENS)),
  estimate: say(import.meta.bare || 'How `threshold` counts: `tokens`, the gateway’s own count, or `chars4`, a quarter of the characters.', otherwise(oneOf(['tokens', 'chars4']), 'tokens')),
  connector: say(import.meta.bare || 'How the KV cache travels.', otherwise(oneOf(['nixl', 'lmcache', 'response']), 'nixl')),
  fallback: say(import.meta.bare || 'When no prefill engine can be had.', otherwise(oneOf(['decode_only', 'fail']), 'decode_only')),
  response_field: say(import.meta.bare || '`response`: field of the decode leg that carries the prefill’s answer.', otherwise(words(128), 'disagg_prefill_resp')),
  lmcache: say(import.meta.bare || '`lmcache`: where KV caches are pushed to.', z.prefault(lmcacheSplit, {})),
  encode: say(import.meta.bare || 'The stage before the prefill, in pools with encode engines.', z.prefault(encode, {})),
})

const lmcache = strict({
  coordinator: say(import.meta.bare || 'Base URL of the multi-process coordinator.', z.optional(baseUrl)),
  controller: say(import.meta.bare || 'Base URL of the legacy controller.', z.optional(baseUrl)),
  registry: say(import.meta.bare || 'The gateway itself is the registry: LMCache servers report to `/lmcache/CLUSTER`.', otherwise(z.boolean(), false)),
  budget_ms: say(import.meta.bare || 'A lookup that takes longer, token ids from an engine included, is given up; the request goes on without.', otherwise(milliseconds(), 30)),
  shared: say(import.meta.bare || 'Engines can read each other’s cache: the best match of any counts for each.', otherwise(z.boolean(), false)),
  headers: say(import.meta.bare || 'Sent to the coordinator or controller, e.g. access tokens of a tunnel.', z.prefault(z.record(headerName, secretText), {})),
  binding: say(import.meta.bare || 'Workers only: ask through this binding.', z.optional(z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'must be the name of a binding' })))),
  model: say(import.meta.bare || 'The model’s name in LMCache’s keys: vLLM’s `--model`. Absent: asked of the engines.', z.optional(modelName)),
  world_size: say(import.meta.bare || 'Ranks of one engine (TP x PP). Absent: read off the coordinator’s directory, else 1.', z.optional(whole(1, 255))),
  chunk_tokens: say(import.meta.bare || 'Registry only: tokens in a chunk, LMCache’s `--chunk-size`.', otherwise(whole(1, 65_536), 256)),
  token: say(import.meta.bare || 'Registry only: what LMCache servers show, as `authorization: Bearer` or in the path `/lmcache/CLUSTER/TOKEN`. Absent: the admin key.', z.optional(secret)),
})

const poolLimits = strict({
  connect_ms: say(import.meta.bare || 'To open a connection to an engine.', otherwise(milliseconds(), 5000)),
  first_byte_ms: say(import.meta.bare || 'From dispatch to the first body byte.', otherwise(milliseconds(), 600_000)),
  prefill_ms: say(import.meta.bare || 'For the prefill leg of a split request.', otherwise(milliseconds(), 300_000)),
  idle_ms: say(import.meta.bare || 'Longest silence between bytes of a stream. There is no limit on its length.', otherwise(milliseconds(), 60_000)),
  native_ms: say(import.meta.bare || 'Longest that a stream which passes natively (Workers) keeps its booking: nobody reads whether it lives. The stream itself goes on.', otherwise(milliseconds(), 3_600_000)),
})

const session = strict({
  header: say(import.meta.bare || 'Request header that names the session.', otherwise(headerName, 'x-session-id')),
  body: say(import.meta.bare || 'Body field that names it when the header is absent. `null`: none.', otherwise(z.nullable(words(128)), 'user')),
})

const retry = strict({
  share: say(import.meta.bare || 'Retries allowed, as a share of requests.', otherwise(decimal(0, 1), 0.2)),
  min_per_s: say(import.meta.bare || 'Retries a second that are always allowed.', otherwise(decimal(0, 1000), 1)),
})

const circuit = strict({
  failures: say(import.meta.bare || 'Consecutive failures that take an engine out.', otherwise(whole(1, 1000), 3)),
  open_ms: say(import.meta.bare || 'For how long, before one request may try it.', otherwise(milliseconds(), 4_000)),
})

const pool = strict({
  model: say(import.meta.bare || 'Base model, as the engines serve it.', modelName),
  aliases: say(import.meta.bare || 'Other names clients may use for it.', z.prefault(z.array(modelName), [])),
  adapters: say(import.meta.bare || 'LoRA adapters served on top of it, by the engines’ names.', z.prefault(z.array(modelName), [])),
  policy: say(import.meta.bare || 'How an engine is chosen: a name, or `{ name: …, option: value }`.', otherwise(policy, defaultPolicy)),
  shadow: say(import.meta.bare || 'A second policy that ranks the same requests and never acts; compare them in the decisions.', z.optional(policy)),
  block_tokens: say(import.meta.bare || 'Tokens in a block of the gateway’s books. Best a multiple of the engines’ block size.', otherwise(whole(1, 4096), 64)),
  tokenizer: say(import.meta.bare || 'Compiled vocabulary: a file on Node, a key on Workers. Absent: bytes with a learned ratio.', z.optional(words(1024))),
  split: say(import.meta.bare || 'Disaggregated prefill: see disaggregation.md.', z.prefault(split, {})),
  lmcache: say(import.meta.bare || 'Where to ask what LMCache holds. Absent: nobody is asked.', z.optional(lmcache)),
  limits: say(import.meta.bare || 'Time limits.', z.prefault(poolLimits, {})),
  stats_interval_ms: say(import.meta.bare || 'How often each engine’s `/health` and `/metrics` are read.', otherwise(milliseconds(100), 10_000)),
  discover_interval_ms: say(import.meta.bare || 'Node only: how often the names of engines with `discover` are looked up. An address is gone when three answers in a row lack it.', otherwise(milliseconds(100), 5_000)),
  observe_share: say(import.meta.bare || 'Share of streams whose events are read on the way. Default: 1 on Node, 0.1 on Workers, where reading costs more.', z.optional(decimal(0, 1))),
  session: say(import.meta.bare || 'What makes requests one conversation, for policies that keep those together.', z.prefault(session, {})),
  lease_ms: say(import.meta.bare || 'A booking without a sign of life for this long lapses.', otherwise(milliseconds(1000), 60_000)),
  retry: say(import.meta.bare || 'Budget for attempts on another engine, before the first byte.', z.prefault(retry, {})),
  circuit: say(import.meta.bare || 'Circuit breaker of each engine.', z.prefault(circuit, {})),
  index_entries: say(import.meta.bare || 'Hard cap of the prefix index, entries over all engines; some 40 bytes each.', otherwise(whole(1000, 10_000_000), 1_000_000)),
  engines: say(import.meta.bare || 'The model servers.', z.array(engine).check(z.minLength(1))),
})

/** As a pool's, of what an edge decides itself. */
const regionalModel = strict({
  model: pool.shape.model,
  aliases: pool.shape.aliases,
  adapters: pool.shape.adapters,
  block_tokens: say(import.meta.bare || 'As the region has it: prompts that are cut alike are known again there.', pool.shape.block_tokens),
  tokenizer: say(import.meta.bare || 'As the region has it. Absent: bytes with a learned ratio.', pool.shape.tokenizer),
  limits: pool.shape.limits,
  observe_share: pool.shape.observe_share,
  session: pool.shape.session,
  lease_ms: pool.shape.lease_ms,
  retry: pool.shape.retry,
  circuit: pool.shape.circuit,
})

const regional = strict({
  url: say(import.meta.bare || 'Its base URL, without `/v1`.', baseUrl),
  key: say(import.meta.bare || 'Its key for this gateway, sent as `authorization: Bearer`; over there it has `edge: true`.', z.optional(secret)),
  headers: engine.shape.headers,
  binding: say(import.meta.bare || 'Workers only: fetch through this binding, for gateways in a private network.', engine.shape.binding),
  max_in_flight: say(import.meta.bare || 'Requests this gateway lets it hold at once. Absent: no limit of ours.', engine.shape.max_in_flight),
  rtt_ms: say(import.meta.bare || 'Network round trip to it. Absent: measured.', z.optional(decimal(0, 10_000))),
  outlook_ms: say(import.meta.bare || 'How old what it expects may get before it is asked again, behind a response.', otherwise(milliseconds(100), 2_000)),
  models: say(import.meta.bare || 'What it serves.', z.array(regionalModel).check(z.minLength(1))),
})

const cluster = strict({
  id: say(import.meta.bare || 'Name of the cluster.', id),
  region: say(import.meta.bare || 'Where it is, for people: `eu-west`.', z.optional(id)),
  location_hint: say(import.meta.bare || 'Workers only: where Cloudflare should keep the cluster’s books.', z.optional(oneOf(['wnam', 'enam', 'sam', 'weur', 'eeur', 'apac', 'oc', 'afr', 'me']))),
  generation: say(import.meta.bare || 'Part of the names of the cluster’s objects: raise it to move them.', otherwise(whole(1, 1_000_000), 1)),
  weight: say(import.meta.bare || 'Share of traffic relative to other clusters with the same model.', otherwise(decimal(0, 1000), 1)),
  pools: say(import.meta.bare || 'One per base model. Absent: the cluster is behind a `gateway`.', z.optional(z.array(pool).check(z.minLength(1)))),
  gateway: say(import.meta.bare || 'Another Firstlight, beside the engines: it chooses among them, and this one chooses among clusters (docs/regions.md). In place of `pools`.', z.optional(regional)),
})

const admin = strict({
  secret: say(import.meta.bare || 'What administrators send as `authorization: Bearer`.', secret),
})

const bridge = strict({
  secret: say(import.meta.bare || 'What bridges send as `authorization: Bearer`.', secret),
})

const cors = strict({
  origins: say(import.meta.bare || 'Origins of pages, as `https://chat.example.com`, or `*` alone: every page.', origins),
  max_age_s: say(import.meta.bare || 'How long a browser may remember that it was let in.', otherwise(whole(0, 86_400), 600)),
})

const gatewayLimits = strict({
  body_bytes: say(import.meta.bare || 'Largest request body.', otherwise(whole(1024, 1_073_741_824), 33_554_432)),
  body_pieces: say(import.meta.bare || 'What a request body may take to parse, in steps of about 0.1 µs: a text or a known name counts 3, a new name 12, a mapping 6 besides its names, a list 2, a token id about a third; the length of texts does not count. More would hold up everybody else.', otherwise(whole(1024, 1_073_741_824), 500_000)),
  heartbeat_ms: say(import.meta.bare || 'SSE comments to the client while an engine is silent for this long. 0: none.', otherwise(whole(0, 3_600_000), 15_000)),
  drain_ms: say(import.meta.bare || 'How long running streams may finish after SIGTERM.', otherwise(whole(0, 3_600_000), 25_000)),
  response_ids: say(import.meta.bare || 'Remembered owners of stored responses (`previous_response_id`).', otherwise(whole(0, 10_000_000), 10_000)),
})

const log = strict({
  level: say(import.meta.bare || 'Prompts and keys are logged at no level.', otherwise(oneOf(['debug', 'info', 'warn', 'error', 'silent']), 'info')),
  stats_interval_s: say(import.meta.bare || 'Node only: one line per engine this often (requests a second, running, queued work, hit rate, TTFT). 0: none.', otherwise(whole(0, 86_400), 0)),
  routing: say(import.meta.bare || 'The line `Routing request … with session id … to …` that tests of production-stack read. It names engines’ URLs.', otherwise(z.boolean(), false)),
})

const relay = strict({
  url: say(import.meta.bare || 'Base URL of the gateway that keeps the reports, e.g. a Worker.', baseUrl),
  token: say(import.meta.bare || 'Its `ttft.token`.', z.optional(secret)),
})

const ttft = strict({
  enabled: say(import.meta.bare || 'Off: the routes answer 404, nothing is called or kept.', otherwise(z.boolean(), false)),
  listen: say(import.meta.bare || 'Node only: another HOST:PORT to take reports on, in plain HTTP and without keys.', z.optional(address)),
  token: say(import.meta.bare || 'What reporters show: as `authorization: Bearer`, or in the path, `/ttft_report/TOKEN`. Absent: anybody who can reach the route.', z.optional(secret)),
  ttl_s: say(import.meta.bare || 'How long a report is kept.', otherwise(whole(1, 86_400), 600)),
  max_requests: say(import.meta.bare || 'How many requests’ reports are kept.', otherwise(whole(1, 10_000_000), 100_000)),
  max_bytes: say(import.meta.bare || 'How much memory reports may take; on Workers, in each of the objects that share them.', otherwise(whole(65_536, 17_179_869_184), 67_108_864)),
  log: say(import.meta.bare || 'A line in the log for each new stage, and when a report is complete.', otherwise(z.boolean(), false)),
  comment: say(import.meta.bare || 'The stages known at the end as a last SSE comment of streams that are read on the way.', otherwise(z.boolean(), false)),
  relay: say(import.meta.bare || 'Node only: pass reports on to another gateway, in batches, instead of keeping them.', z.optional(relay)),
})

const metrics = strict({
  key: say(import.meta.bare || 'What scrapers of `/metrics` send as `authorization: Bearer`. Absent: the admin key, or nothing where only this machine can ask.', z.optional(secret)),
})

const traces = strict({
  endpoint: say(import.meta.bare || 'OTLP/HTTP collector, e.g. `http://127.0.0.1:4318`. Absent: no spans are sent.', z.optional(baseUrl)),
  headers: say(import.meta.bare || 'Sent to the collector, e.g. its key.', z.prefault(z.record(headerName, secretText), {})),
  sample: say(import.meta.bare || 'Share of requests that are traced where the client has not decided by its `traceparent`.', otherwise(decimal(0, 1), 0.1)),
  service: say(import.meta.bare || '`service.name` of the spans.', otherwise(words(255), 'firstlight')),
})

const record = strict({
  file: say(import.meta.bare || 'Where to write; relative names start at the configuration’s folder. The newest is here, older ones in `FILE.1`, `FILE.2`, …', words(1024)),
  max_bytes: say(import.meta.bare || 'How large a file may get before the next one is begun.', otherwise(whole(65_536, 17_179_869_184), 67_108_864)),
  files: say(import.meta.bare || 'How many are kept, the newest included.', otherwise(whole(1, 1000), 4)),
  salt: say(import.meta.bare || 'Mixed into every hash: with the same salt, recordings of several gateways or starts share their blocks. Absent: a new one at each start.', z.optional(secretText)),
})

const replicas = strict({
  listen: say(import.meta.bare || 'HOST:PORT where the others read what this one books, in plain HTTP: for a private network.', address),
  peers: say(import.meta.bare || 'HOST:PORT of the others. Every address of a name is one, looked up every 5 s; this gateway itself among them does no harm, so that all replicas can have the same document.', z.array(address).check(z.minLength(1))),
  secret: say(import.meta.bare || 'What they show each other. Required where other machines reach `replicas.listen`.', z.optional(secret)),
})

const document = strict({
  version: say(import.meta.bare || 'Raise it with every change: cluster objects adopt only newer ones. Default: the file’s time of change on Node, the deployment’s on Workers.', z.optional(whole(1, Number.MAX_SAFE_INTEGER))),
  listen: say(import.meta.bare || 'Node only: HOST:PORT.', otherwise(address, '127.0.0.1:8080')),
  workers: say(import.meta.bare || 'Node only: threads that carry requests, or `auto`: as many as there are cores, less one. From 2 on another thread keeps the books (docs/scale.md).', otherwise(threads, 1)),
  open: say(import.meta.bare || 'Serve anybody who can reach the gateway, without keys.', otherwise(z.boolean(), false)),
  keys: say(import.meta.bare || 'Who may call. Absent: anybody on a loopback address, else refused unless `open: true`.', z.optional(z.array(key).check(z.minLength(1)))),
  admin: say(import.meta.bare || 'Access to `/v1/firstlight/*`.', z.optional(admin)),
  bridge: say(import.meta.bare || 'Access to `/v1/firstlight/kv-events` alone, for bridges of KV events. Absent: they need the admin key.', z.optional(bridge)),
  cors: say(import.meta.bare || 'Pages of other origins that may call the API from a browser (docs/api.md). Absent: none.', z.optional(cors)),
  clusters: say(import.meta.bare || 'Where the engines are.', z.array(cluster).check(z.minLength(1))),
  limits: say(import.meta.bare || 'Limits of the gateway itself.', z.prefault(gatewayLimits, {})),
  log: say(import.meta.bare || 'Structured logs.', z.prefault(log, {})),
  ttft: say(import.meta.bare || 'Reports of what each stage before the first token took.', z.prefault(ttft, {})),
  metrics: say(import.meta.bare || 'Prometheus metrics at `/metrics`.', z.prefault(metrics, {})),
  traces: say(import.meta.bare || 'Spans of requests, by OTLP over HTTP.', z.prefault(traces, {})),
  record: say(import.meta.bare || 'Node only: the traffic as a trace for `firstlight replay`, in times, lengths and salted hashes; no text. Absent: nothing is written.', z.optional(record)),
  replicas: say(import.meta.bare || 'Node only: other gateways in front of the same engines, which tell each other what they book (docs/replicas.md). Absent: none.', z.optional(replicas)),
})

/** Nobody on Workers reads what a schema says of itself. */
export const documentSchema = import.meta.bare ? document : document.check(z.meta({ title: 'Firstlight configuration' }))

export type WrittenDocument = z.output<typeof documentSchema>
export type PoolDocument = z.output<typeof pool>
export type GatewayDocument = z.output<typeof regional>

/** `pools` of a gateway's cluster are made of its models. */
export type ClusterDocument = Omit<WrittenDocument['clusters'][number], 'pools'> & { readonly pools: readonly PoolDocument[] }
export type ConfigDocument = Omit<WrittenDocument, 'clusters'> & { readonly clusters: readonly ClusterDocument[] }

/** Every cluster with pools: of what is behind a gateway, each with that gateway as its only engine. */
export const withPools = (written: WrittenDocument): ConfigDocument => ({ ...written, clusters: written.clusters.map((one) => ({ ...one, pools: one.gateway === undefined ? (one.pools ?? []) : poolsOf(one.id, one.gateway) })) })

/** Everything that is not said there is as in a pool of which nothing is said; an edge keeps no index of what a region holds. */
function poolsOf(name: string, { url, outlook_ms, models, ...place }: GatewayDocument): PoolDocument[] {
  const bare = pool.safeParse({ model: name, policy: 'least_loaded', index_entries: 1000, stats_interval_ms: outlook_ms, engines: [{ id: name, url }] }).data!
  return models.map((model) => ({ ...bare, ...model, engines: [{ ...bare.engines[0]!, key: place.key, headers: place.headers, binding: place.binding, max_in_flight: place.max_in_flight }] }))
}
export type EngineDocument = z.output<typeof engine>
