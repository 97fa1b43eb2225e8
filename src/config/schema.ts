/**
 * The configuration document: every key, its default and its meaning. docs/config.md and the JSON Schema for
 * editors are generated from this file and pool-schema.ts (`npm run docs`); the Worker's build leaves the meanings out.
 */
import * as z from 'zod/mini'
import { engine, pool, type PoolDocument } from './pool-schema.ts'
import { address, baseUrl, decimal, headerName, id, milliseconds, modelName, oneOf, origins, otherwise, say, secret, secretText, shownSecret, strict, threads, whole, words } from './values.ts'

const key = strict({
  name: say(import.meta.bare || 'Who holds the key: `tenant` in the log.', id),
  secret: say(import.meta.bare || 'What clients send as `authorization: Bearer`.', shownSecret),
  models: say(import.meta.bare || 'Models and aliases the key may use. Absent: all.', z.optional(z.array(modelName).check(z.minLength(1)))),
  allow_overrides: say(import.meta.bare || 'May its requests choose the policy and its weights for themselves?', otherwise(z.boolean(), false)),
  edge: say(import.meta.bare || 'Another Firstlight before this one has the key: it may read what this one expects, `/v1/firstlight/outlook`.', otherwise(z.boolean(), false)),
  cache_salt: say(import.meta.bare || 'Keeps this key’s cached prefixes apart from everybody else’s, in the gateway and in the engines. Absent: shared.', z.optional(secretText)),
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
