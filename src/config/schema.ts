/**
 * The configuration document: every key, its default and its meaning. docs/config.md and the JSON Schema for
 * editors are generated from this file and pool-schema.ts (`npm run docs`); the Worker's build leaves the meanings out.
 */
import * as z from 'zod/mini'
import { engine, pool, type PoolDocument } from './pool-schema.ts'
import { address, baseUrl, decimal, headerName, id, milliseconds, modelName, oneOf, origins, otherwise, say, secret, secretText, shownSecret, strict, threads, whole, words } from './values.ts'

const key = strict({
  name: say('Who holds the key: `tenant` in the log.', id),
  secret: say('What clients send as `authorization: Bearer`.', shownSecret),
  models: say('Models and aliases the key may use. Absent: all.', z.optional(z.array(modelName).check(z.minLength(1)))),
  allow_overrides: say('May its requests choose the policy and its weights for themselves?', otherwise(z.boolean(), false)),
  edge: say('Another Firstlight before this one has the key: it may read what this one expects, `/v1/firstlight/outlook`.', otherwise(z.boolean(), false)),
  cache_salt: say('Keeps this key’s cached prefixes apart from everybody else’s, in the gateway and in the engines. Absent: shared.', z.optional(secretText)),
})

/** As a pool's, of what an edge decides itself. */
const regionalModel = strict({
  model: pool.shape.model,
  aliases: pool.shape.aliases,
  adapters: pool.shape.adapters,
  block_tokens: say('As the region has it: prompts that are cut alike are known again there.', pool.shape.block_tokens),
  tokenizer: say('As the region has it. Absent: bytes with a learned ratio.', pool.shape.tokenizer),
  limits: pool.shape.limits,
  observe_share: pool.shape.observe_share,
  session: pool.shape.session,
  lease_ms: pool.shape.lease_ms,
  retry: pool.shape.retry,
  circuit: pool.shape.circuit,
})

const regional = strict({
  url: say('Its base URL, without `/v1`.', baseUrl),
  key: say('Its key for this gateway, sent as `authorization: Bearer`; over there it has `edge: true`.', z.optional(secret)),
  headers: engine.shape.headers,
  binding: say('Workers only: fetch through this binding, for gateways in a private network.', engine.shape.binding),
  max_in_flight: say('Requests this gateway lets it hold at once. Absent: no limit of ours.', engine.shape.max_in_flight),
  rtt_ms: say('Network round trip to it. Absent: measured.', z.optional(decimal(0, 10_000))),
  outlook_ms: say('How old what it expects may get before it is asked again, behind a response.', otherwise(milliseconds(100), 2_000)),
  models: say('What it serves.', z.array(regionalModel).check(z.minLength(1))),
})

const cluster = strict({
  id: say('Name of the cluster.', id),
  region: say('Where it is, for people: `eu-west`.', z.optional(id)),
  location_hint: say('Workers only: where Cloudflare should keep the cluster’s books.', z.optional(oneOf(['wnam', 'enam', 'sam', 'weur', 'eeur', 'apac', 'oc', 'afr', 'me']))),
  generation: say('Part of the names of the cluster’s objects: raise it to move them.', otherwise(whole(1, 1_000_000), 1)),
  weight: say('Share of traffic relative to other clusters with the same model.', otherwise(decimal(0, 1000), 1)),
  pools: say('One per base model. Absent: the cluster is behind a `gateway`.', z.optional(z.array(pool).check(z.minLength(1)))),
  gateway: say('Another Firstlight, beside the engines: it chooses among them, and this one chooses among clusters (docs/regions.md). In place of `pools`.', z.optional(regional)),
})

const admin = strict({
  secret: say('What administrators send as `authorization: Bearer`.', secret),
})

const bridge = strict({
  secret: say('What bridges send as `authorization: Bearer`.', secret),
})

const cors = strict({
  origins: say('Origins of pages, as `https://chat.example.com`, or `*` alone: every page.', origins),
  max_age_s: say('How long a browser may remember that it was let in.', otherwise(whole(0, 86_400), 600)),
})

const gatewayLimits = strict({
  body_bytes: say('Largest request body.', otherwise(whole(1024, 1_073_741_824), 33_554_432)),
  buffered_bytes: say('Largest sum of request bodies held at once, until their engines answer: of the process, on Workers of the isolate. Beyond it 503 `request_buffers_full`; bodies over 1 MiB leave the last quarter to smaller ones. At least `body_bytes`. Default: 256 MiB on Node, 64 MiB on Workers, or `body_bytes` if that is more.', z.optional(whole(1024, 1_099_511_627_776))),
  body_pieces: say('What a request body may take to parse, in steps of about 0.1 µs: a text or a known name counts 3, a new name 12, a mapping 6 besides its names, a list 2, a token id about a third; the length of texts does not count. More would hold up everybody else.', otherwise(whole(1024, 1_073_741_824), 500_000)),
  heartbeat_ms: say('SSE comments to the client while an engine is silent for this long. 0: none.', otherwise(whole(0, 3_600_000), 15_000)),
  drain_ms: say('How long running streams may finish after SIGTERM.', otherwise(whole(0, 3_600_000), 25_000)),
  response_ids: say('Remembered owners of stored responses (`previous_response_id`).', otherwise(whole(0, 10_000_000), 10_000)),
})

const log = strict({
  level: say('Prompts and keys are logged at no level.', otherwise(oneOf(['debug', 'info', 'warn', 'error', 'silent']), 'info')),
  stats_interval_s: say('Node only: one line per engine this often (requests a second, running, queued work, hit rate, TTFT). 0: none.', otherwise(whole(0, 86_400), 0)),
  routing: say('The line `Routing request … with session id … to …` that tests of production-stack read. It names engines’ URLs.', otherwise(z.boolean(), false)),
})

const relay = strict({
  url: say('Base URL of the gateway that keeps the reports, e.g. a Worker.', baseUrl),
  token: say('Its `ttft.token`.', z.optional(secret)),
})

const ttft = strict({
  enabled: say('Off: the routes answer 404, nothing is called or kept.', otherwise(z.boolean(), false)),
  listen: say('Node only: another HOST:PORT to take reports on, in plain HTTP and without keys.', z.optional(address)),
  token: say('What reporters show: as `authorization: Bearer`, or in the path, `/ttft_report/TOKEN`. Absent: anybody who can reach the route.', z.optional(secret)),
  ttl_s: say('How long a report is kept.', otherwise(whole(1, 86_400), 600)),
  max_requests: say('How many requests’ reports are kept.', otherwise(whole(1, 10_000_000), 100_000)),
  max_bytes: say('How much memory reports may take; on Workers, in each of the objects that share them.', otherwise(whole(65_536, 17_179_869_184), 67_108_864)),
  log: say('A line in the log for each new stage, and when a report is complete.', otherwise(z.boolean(), false)),
  comment: say('The stages known at the end as a last SSE comment of streams that are read on the way.', otherwise(z.boolean(), false)),
  relay: say('Node only: pass reports on to another gateway, in batches, instead of keeping them.', z.optional(relay)),
})

const metrics = strict({
  key: say('What scrapers of `/metrics` send as `authorization: Bearer`. Absent: the admin key, or nothing where only this machine can ask.', z.optional(secret)),
})

const traces = strict({
  endpoint: say('OTLP/HTTP collector, e.g. `http://127.0.0.1:4318`. Absent: no spans are sent.', z.optional(baseUrl)),
  headers: say('Sent to the collector, e.g. its key.', z.prefault(z.record(headerName, secretText), {})),
  sample: say('Share of requests that are traced where the client has not decided by its `traceparent`.', otherwise(decimal(0, 1), 0.1)),
  service: say('`service.name` of the spans.', otherwise(words(255), 'firstlight')),
})

const record = strict({
  file: say('Where to write; relative names start at the configuration’s folder. The newest is here, older ones in `FILE.1`, `FILE.2`, …', words(1024)),
  max_bytes: say('How large a file may get before the next one is begun.', otherwise(whole(65_536, 17_179_869_184), 67_108_864)),
  files: say('How many are kept, the newest included.', otherwise(whole(1, 1000), 4)),
  salt: say('Mixed into every hash: with the same salt, recordings of several gateways or starts share their blocks. Absent: a new one at each start.', z.optional(secretText)),
})

const replicas = strict({
  listen: say('HOST:PORT where the others read what this one books, in plain HTTP: for a private network.', address),
  peers: say('HOST:PORT of the others. Every address of a name is one, looked up every 5 s; this gateway itself among them does no harm, so that all replicas can have the same document.', z.array(address).check(z.minLength(1))),
  secret: say('What they show each other. Required where other machines reach `replicas.listen`.', z.optional(secret)),
})

const document = strict({
  version: say('Raise it with every change: cluster objects adopt only newer ones. Default: the file’s time of change on Node, the deployment’s on Workers.', z.optional(whole(1, Number.MAX_SAFE_INTEGER))),
  listen: say('Node only: HOST:PORT.', otherwise(address, '127.0.0.1:8080')),
  workers: say('Node only: threads that carry requests, or `auto`: as many as there are cores, less one. From 2 on another thread keeps the books (docs/scale.md).', otherwise(threads, 1)),
  open: say('Serve anybody who can reach the gateway, without keys.', otherwise(z.boolean(), false)),
  keys: say('Who may call. Absent: anybody on a loopback address, else refused unless `open: true`.', z.optional(z.array(key).check(z.minLength(1)))),
  admin: say('Access to `/v1/firstlight/*`.', z.optional(admin)),
  bridge: say('Access to `/v1/firstlight/kv-events` alone, for bridges of KV events. Absent: they need the admin key.', z.optional(bridge)),
  cors: say('Pages of other origins that may call the API from a browser (docs/api.md). Absent: none.', z.optional(cors)),
  clusters: say('Where the engines are.', z.array(cluster).check(z.minLength(1))),
  limits: say('Limits of the gateway itself.', z.prefault(gatewayLimits, {})),
  log: say('Structured logs.', z.prefault(log, {})),
  ttft: say('Reports of what each stage before the first token took.', z.prefault(ttft, {})),
  metrics: say('Prometheus metrics at `/metrics`.', z.prefault(metrics, {})),
  traces: say('Spans of requests, by OTLP over HTTP.', z.prefault(traces, {})),
  record: say('Node only: the traffic as a trace for `firstlight replay`, in times, lengths and salted hashes; no text. Absent: nothing is written.', z.optional(record)),
  replicas: say('Node only: other gateways in front of the same engines, which tell each other what they book (docs/replicas.md). Absent: none.', z.optional(replicas)),
})

export const documentSchema = document.check(z.meta({ title: 'Firstlight configuration' }))

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
