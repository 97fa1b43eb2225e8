/**
 * The configuration document: every key, its default and its meaning. docs/config.md and the JSON Schema for
 * editors are generated from this file and pool-schema.ts (`npm run docs`); the Worker's build leaves the meanings out.
 */
import * as z from 'zod/mini'
import { engine, pool, type PoolDocument } from './pool-schema.ts'
import {
  address,
  baseUrl,
  number,
  headerName,
  id,
  milliseconds,
  modelName,
  oneOf,
  origins,
  otherwise,
  describe,
  secret,
  secretText,
  shownSecret,
  strict,
  threads,
  int,
  words,
} from './fields.ts'

const key = strict({
  name: describe('Who holds the key: `tenant` in the log.', id),
  secret: describe('What clients send as `authorization: Bearer`.', shownSecret),
  models: describe(
    'Models and aliases the key may use. Absent: all.',
    z.optional(z.array(modelName).check(z.minLength(1))),
  ),
  allow_overrides: describe(
    'May its requests choose the policy and its weights for themselves?',
    otherwise(z.boolean(), false),
  ),
  edge: describe(
    'Another Firstlight before this one has the key: it may read what this one expects, `/v1/firstlight/digest`.',
    otherwise(z.boolean(), false),
  ),
  cache_salt: describe(
    'Keeps this key’s cached prefixes apart from everybody else’s, in the gateway and in the engines. Absent: shared.',
    z.optional(secretText),
  ),
  priority: describe(
    '`priority` of all its requests at engines, in place of what clients send (vLLM with `--scheduling-policy priority`: lower is served first). Absent: none is set, and clients may send one only with `allow_overrides`.',
    z.optional(int(-1_000_000, 1_000_000)),
  ),
})

/** As a pool's, of what an edge decides itself. */
const regionalModel = strict({
  model: pool.shape.model,
  aliases: pool.shape.aliases,
  adapters: pool.shape.adapters,
  block_tokens: describe(
    'As the region has it: prompts that are cut alike are known again there.',
    pool.shape.block_tokens,
  ),
  tokenizer: describe('As the region has it. Absent: bytes with a learned ratio.', pool.shape.tokenizer),
  limits: pool.shape.limits,
  observe_share: pool.shape.observe_share,
  session: pool.shape.session,
  lease_ms: pool.shape.lease_ms,
  retry: pool.shape.retry,
  circuit: pool.shape.circuit,
})

const regional = strict({
  url: describe('Its base URL, without `/v1`.', baseUrl),
  key: describe(
    'Its key for this gateway, sent as `authorization: Bearer`; over there it has `edge: true`.',
    z.optional(secret),
  ),
  headers: engine.shape.headers,
  binding: describe(
    'Workers only: fetch through this binding, for gateways in a private network.',
    engine.shape.binding,
  ),
  max_in_flight: describe(
    'Requests this gateway lets it hold at once. Absent: no limit of ours.',
    engine.shape.max_in_flight,
  ),
  rtt_ms: describe('Network round trip to it. Absent: measured.', z.optional(number(0, 10_000))),
  digest_interval_ms: describe(
    'How old what it expects may get before it is asked again, behind a response.',
    otherwise(milliseconds(100), 2_000),
  ),
  models: describe('What it serves.', z.array(regionalModel).check(z.minLength(1))),
})

const cluster = strict({
  id: describe('Name of the cluster.', id),
  region: describe('Where it is, for people: `eu-west`.', z.optional(id)),
  location_hint: describe(
    'Workers only: where Cloudflare should keep the cluster’s books.',
    z.optional(oneOf(['wnam', 'enam', 'sam', 'weur', 'eeur', 'apac', 'oc', 'afr', 'me'])),
  ),
  generation: describe(
    'Part of the names of the cluster’s objects: raise it to move them.',
    otherwise(int(1, 1_000_000), 1),
  ),
  weight: describe('Share of traffic relative to other clusters with the same model.', otherwise(number(0, 1000), 1)),
  pools: describe(
    'One per base model. Absent: the cluster is behind a `gateway`.',
    z.optional(z.array(pool).check(z.minLength(1))),
  ),
  gateway: describe(
    'Another Firstlight, beside the engines: it chooses among them, and this one chooses among clusters (docs/regions.md). In place of `pools`.',
    z.optional(regional),
  ),
})

const admin = strict({
  secret: describe('What administrators send as `authorization: Bearer`.', secret),
})

const bridge = strict({
  secret: describe('What bridges send as `authorization: Bearer`.', secret),
})

const cors = strict({
  origins: describe('Origins of pages, as `https://chat.example.com`, or `*` alone: every page.', origins),
  max_age_s: describe('How long a browser may remember that it was let in.', otherwise(int(0, 86_400), 600)),
})

const gatewayLimits = strict({
  body_bytes: describe('Largest request body.', otherwise(int(1024, 1_073_741_824), 33_554_432)),
  buffered_bytes: describe(
    'Largest sum of request bodies held at once, until their engines answer: of the process, on Workers of the isolate. Beyond it 503 `request_buffers_full`; bodies over 1 MiB leave the last quarter to smaller ones. At least `body_bytes`. Default: 256 MiB on Node, 64 MiB on Workers, or `body_bytes` if that is more.',
    z.optional(int(1024, 1_099_511_627_776)),
  ),
  max_json_cost: describe(
    'What a request body may take to parse, in steps of about 0.1 µs: a text or a known name counts 3, a new name 12, a mapping 6 besides its names, a list 2, a token id about a third; the length of texts does not count. More would hold up everybody else.',
    otherwise(int(1024, 1_073_741_824), 500_000),
  ),
  heartbeat_ms: describe(
    'SSE comments to the client while an engine is silent for this long. 0: none.',
    otherwise(int(0, 3_600_000), 15_000),
  ),
  drain_ms: describe('How long running streams may finish after SIGTERM.', otherwise(int(0, 3_600_000), 25_000)),
  write_ms: describe(
    'Longest time a client may read nothing of its answer. Then its request ends, its engine is free, and `firstlight_rejected_requests_total` counts `write_timeout`. On Workers only for streams that are observed (`observe_share`). 0: no limit.',
    otherwise(int(0, 3_600_000), 60_000),
  ),
  connections: describe(
    'Node only: connections of clients that are served at once, by the process. Further ones get 503 `connections_full`. Default: half of what the limit of open files (`ulimit -n`) leaves, so that each has one to an engine.',
    z.optional(int(1, 10_000_000)),
  ),
  response_ids: describe(
    'Remembered owners of stored responses (`previous_response_id`).',
    otherwise(int(0, 10_000_000), 10_000),
  ),
})

const log = strict({
  level: describe(
    'Prompts and keys are logged at no level.',
    otherwise(oneOf(['debug', 'info', 'warn', 'error', 'silent']), 'info'),
  ),
  stats_interval_s: describe(
    'Node only: one line per engine this often (requests a second, running, queued work, hit rate, TTFT). 0: none.',
    otherwise(int(0, 86_400), 0),
  ),
  routing: describe(
    'The line `Routing request … with session id … to …` that tests of production-stack read. It names engines’ URLs.',
    otherwise(z.boolean(), false),
  ),
})

const relay = strict({
  url: describe('Base URL of the gateway that keeps the reports, e.g. a Worker.', baseUrl),
  token: describe('Its `ttft.token`.', z.optional(secret)),
})

const ttft = strict({
  enabled: describe('Off: the routes answer 404, nothing is called or kept.', otherwise(z.boolean(), false)),
  listen: describe(
    'Node only: another HOST:PORT to take reports on, in plain HTTP and without keys.',
    z.optional(address),
  ),
  token: describe(
    'What reporters show: as `authorization: Bearer`, or in the path, `/ttft_report/TOKEN`. Absent: anybody who can reach the route.',
    z.optional(secret),
  ),
  ttl_s: describe('How long a report is kept.', otherwise(int(1, 86_400), 600)),
  max_requests: describe('How many requests’ reports are kept.', otherwise(int(1, 10_000_000), 100_000)),
  max_bytes: describe(
    'How much memory reports may take; on Workers, in each of the objects that share them.',
    otherwise(int(65_536, 17_179_869_184), 67_108_864),
  ),
  log: describe('A line in the log for each new stage, and when a report is complete.', otherwise(z.boolean(), false)),
  comment: describe(
    'The stages known at the end as a last SSE comment of streams that are read on the way.',
    otherwise(z.boolean(), false),
  ),
  relay: describe(
    'Node only: pass reports on to another gateway, in batches, instead of keeping them.',
    z.optional(relay),
  ),
})

const metrics = strict({
  key: describe(
    'What scrapers of `/metrics` send as `authorization: Bearer`. Absent: the admin key, or nothing where only this machine can ask.',
    z.optional(secret),
  ),
})

const traces = strict({
  endpoint: describe(
    'OTLP/HTTP collector, e.g. `http://127.0.0.1:4318`. Absent: no spans are sent.',
    z.optional(baseUrl),
  ),
  headers: describe('Sent to the collector, e.g. its key.', z.prefault(z.record(headerName, secretText), {})),
  sample: describe(
    'Share of requests that are traced where the client has not decided by its `traceparent`.',
    otherwise(number(0, 1), 0.1),
  ),
  service: describe('`service.name` of the spans.', otherwise(words(255), 'firstlight')),
})

const record = strict({
  file: describe(
    'Where to write; relative names start at the configuration’s folder. The newest is here, older ones in `FILE.1`, `FILE.2`, …',
    words(1024),
  ),
  max_bytes: describe(
    'How large a file may get before the next one is begun.',
    otherwise(int(65_536, 17_179_869_184), 67_108_864),
  ),
  files: describe('How many are kept, the newest included.', otherwise(int(1, 1000), 4)),
  salt: describe(
    'Mixed into every hash: with the same salt, recordings of several gateways or starts share their blocks. Absent: a new one at each start.',
    z.optional(secretText),
  ),
})

const replicas = strict({
  listen: describe(
    'HOST:PORT where the others read what this one books, in plain HTTP: for a private network.',
    address,
  ),
  peers: describe(
    'HOST:PORT of the others. Every address of a name is one, looked up every 5 s; this gateway itself among them does no harm, so that all replicas can have the same document.',
    z.array(address).check(z.minLength(1)),
  ),
  secret: describe(
    'Shared by all replicas. Each proves that it has the secret and none sends it; what cannot prove it is neither answered nor believed. Required where other machines reach `replicas.listen`.',
    z.optional(secret),
  ),
})

const document = strict({
  version: describe(
    'Raise it with every change: cluster objects adopt only newer ones. Default: the file’s time of change on Node, the deployment’s on Workers.',
    z.optional(int(1, Number.MAX_SAFE_INTEGER)),
  ),
  listen: describe('Node only: HOST:PORT.', otherwise(address, '127.0.0.1:8080')),
  workers: describe(
    'Node only: threads that carry requests, or `auto`: as many as there are cores, less one. From 2 on another thread keeps the books (docs/scale.md).',
    otherwise(threads, 1),
  ),
  open: describe('Serve anybody who can reach the gateway, without keys.', otherwise(z.boolean(), false)),
  keys: describe(
    'Who may call. Absent: anybody on a loopback address, else refused unless `open: true`.',
    z.optional(z.array(key).check(z.minLength(1))),
  ),
  admin: describe('Access to `/v1/firstlight/*`.', z.optional(admin)),
  bridge: describe(
    'Access to `/v1/firstlight/kv-events` alone, for bridges of KV events. Absent: they need the admin key.',
    z.optional(bridge),
  ),
  cors: describe(
    'Pages of other origins that may call the API from a browser (docs/api.md). Absent: none.',
    z.optional(cors),
  ),
  clusters: describe('Where the engines are.', z.array(cluster).check(z.minLength(1))),
  limits: describe('Limits of the gateway itself.', z.prefault(gatewayLimits, {})),
  log: describe('Structured logs.', z.prefault(log, {})),
  ttft: describe('Reports of what each stage before the first token took.', z.prefault(ttft, {})),
  metrics: describe('Prometheus metrics at `/metrics`.', z.prefault(metrics, {})),
  traces: describe('Spans of requests, by OTLP over HTTP.', z.prefault(traces, {})),
  record: describe(
    'Node only: the traffic as a trace for `firstlight replay`, in times, lengths and salted hashes; no text. Absent: nothing is written.',
    z.optional(record),
  ),
  replicas: describe(
    'Node only: other gateways in front of the same engines, which tell each other what they book (docs/replicas.md). Absent: none.',
    z.optional(replicas),
  ),
})

export const documentSchema = document.check(z.meta({ title: 'Firstlight configuration' }))

export type WrittenDocument = z.output<typeof documentSchema>
export type GatewayDocument = z.output<typeof regional>

/** `pools` of a gateway's cluster are made of its models. */
export type ClusterDocument = Omit<WrittenDocument['clusters'][number], 'pools'> & {
  readonly pools: readonly PoolDocument[]
}
export type ConfigDocument = Omit<WrittenDocument, 'clusters'> & { readonly clusters: readonly ClusterDocument[] }

/** Every cluster with pools: of what is behind a gateway, each with that gateway as its only engine. */
export const withPools = (written: WrittenDocument): ConfigDocument => ({
  ...written,
  clusters: written.clusters.map((one) => ({
    ...one,
    pools: one.gateway === undefined ? (one.pools ?? []) : poolsOf(one.id, one.gateway),
  })),
})

/** Everything that is not said there is as in a pool of which nothing is said; an edge keeps no index of what a region holds. */
function poolsOf(name: string, { url, digest_interval_ms, models, ...place }: GatewayDocument): PoolDocument[] {
  const bare = pool.safeParse({
    model: name,
    policy: 'least_loaded',
    index_entries: 1000,
    stats_interval_ms: digest_interval_ms,
    engines: [{ id: name, url }],
  }).data!
  return models.map((model) => ({
    ...bare,
    ...model,
    engines: [
      {
        ...bare.engines[0]!,
        key: place.key,
        headers: place.headers,
        binding: place.binding,
        max_in_flight: place.max_in_flight,
      },
    ],
  }))
}
