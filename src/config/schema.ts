/**
 * Schema of the configuration document: every key with its default and description. Keys of clients,
 * pools and engines are in key-schema.ts, pool-schema.ts and engine-schema.ts. docs/config.md and the JSON Schema for
 * editors are generated from them (`npm run docs`).
 */
import * as z from 'zod/mini'
import { address } from './address.ts'
import { cluster } from './cluster-schema.ts'
import {
  describe,
  headerName,
  hostName,
  id,
  int,
  milliseconds,
  number,
  oneOf,
  strict,
  text,
  withDefault,
} from './fields.ts'
import { epp } from './epp-schema.ts'
import { gatewayLimits } from './gateway-limits-schema.ts'
import { keda } from './keda-schema.ts'
import { issuedKeys, jwt, key, keyLimits, team } from './key-schema.ts'
import { secret, secretText } from './secret-fields.ts'
import { tls } from './tls-schema.ts'
import { threads } from './threads.ts'
import { baseUrl, origins } from './url-fields.ts'
import { weightedModel } from './weighted-model-schema.ts'

const admin = strict({
  secret: describe('Bearer token of administrators.', secret),
})

const bridge = strict({
  secret: describe('Bearer token of KV event bridges.', secret),
})

const cors = strict({
  origins: describe('Allowed origins, such as `https://chat.example.com`, or `*` alone: every origin.', origins),
  max_age_s: describe('How long a browser may cache a preflight response.', withDefault(int(0, 86_400), 600)),
})

const collector = {
  endpoint: describe('OTLP/HTTP collector, e.g. `http://127.0.0.1:4318`.', baseUrl),
  headers: describe(
    'Headers sent to the collector, such as its key.',
    z.prefault(z.record(headerName, secretText), {}),
  ),
}

const logExport = strict(collector)

const metricsExport = strict({
  ...collector,
  interval_s: describe('Seconds between two exports.', withDefault(int(1, 3_600), 60)),
})

const log = strict({
  level: describe(
    'Minimum log level. Prompts and keys are never logged.',
    withDefault(oneOf(['debug', 'info', 'warn', 'error', 'silent']), 'info'),
  ),
  format: describe(
    'Node only: `json` (one object per line), `text` (for people), or `auto`: `text` on a terminal, else `json`.',
    withDefault(oneOf(['auto', 'json', 'text']), 'auto'),
  ),
  stats_interval_s: describe(
    'Node only: interval of one log line per engine (requests per second, running requests, queued work, hit rate, ' +
      'TTFT). 0: none.',
    withDefault(int(0, 86_400), 0),
  ),
  routing: describe(
    'Log the line `Routing request … with session id … to …` that tests of production-stack read. It contains ' +
      'engines’ URLs.',
    withDefault(z.boolean(), false),
  ),
  otlp: describe(
    'Node only: also send the lines to a collector (docs/traces.md). `service.name` is `traces.service`. ' +
      'Absent: none.',
    z.optional(logExport),
  ),
})

const relay = strict({
  url: describe('Base URL of the gateway that stores the reports, e.g. a Worker.', baseUrl),
  token: describe('`ttft.token` of that gateway.', z.optional(secret)),
})

const ttft = strict({
  enabled: describe(
    'Accept TTFT reports. If disabled, the routes return 404 and nothing is stored.',
    withDefault(z.boolean(), false),
  ),
  listen: describe('Node only: additional HOST:PORT for reports, plain HTTP without keys.', z.optional(address)),
  token: describe(
    'Token of reporters, sent as `authorization: Bearer` or in the path, `/ttft_report/TOKEN`. Absent: no ' +
      'authentication at `ttft.listen` and on gateways without keys; with `keys`, the admin key is required ' +
      'elsewhere.',
    z.optional(secret),
  ),
  ttl_s: describe('How long a report is stored.', withDefault(int(1, 86_400), 600)),
  max_requests: describe(
    'Maximum number of requests whose reports are stored.',
    withDefault(int(1, 10_000_000), 100_000),
  ),
  max_bytes: describe(
    'Maximum memory for reports; on Workers, in each of the objects that share them.',
    withDefault(int(65_536, 17_179_869_184), 67_108_864),
  ),
  log: describe('Log a line for each new stage, and when a report is complete.', withDefault(z.boolean(), false)),
  comment: describe(
    'Append the stages known at the end of an observed stream as a last SSE comment.',
    withDefault(z.boolean(), false),
  ),
  relay: describe(
    'Node only: forward reports to another gateway, in batches, instead of storing them.',
    z.optional(relay),
  ),
})

const metrics = strict({
  key: describe(
    'Bearer token for `/metrics`. Absent: the admin key, or none if only this machine can connect.',
    z.optional(secret),
  ),
  otlp: describe(
    'Node only: also send the metrics to a collector (docs/traces.md). `service.name` is `traces.service`. ' +
      'Absent: none.',
    z.optional(metricsExport),
  ),
})

const traces = strict({
  endpoint: describe(
    'OTLP/HTTP collector, e.g. `http://127.0.0.1:4318`. Absent: no spans are sent.',
    z.optional(baseUrl),
  ),
  headers: describe(
    'Headers sent to the collector, such as its key.',
    z.prefault(z.record(headerName, secretText), {}),
  ),
  sample: describe(
    'Share of traced requests among those whose client sent no sampling decision in `traceparent`.',
    withDefault(number(0, 1), 0.1),
  ),
  service: describe('`service.name` of the spans.', withDefault(text(255), 'firstlight')),
})

const record = strict({
  file: describe(
    'Output file, relative to the configuration’s folder. Older files are `FILE.1`, `FILE.2`, …',
    text(1024),
  ),
  max_bytes: describe('Maximum size of a file before rotation.', withDefault(int(65_536, 17_179_869_184), 67_108_864)),
  files: describe('Number of files kept, including the newest.', withDefault(int(1, 1000), 4)),
  salt: describe(
    'Salt of every hash. Recordings with the same salt share their blocks across gateways and restarts. ' +
      'Absent: a new salt at each start.',
    z.optional(secretText),
  ),
})

const replicas = strict({
  url: describe(
    'URL of a Valkey or Redis server, version 7 or later: `redis://USER:PASSWORD@HOST:PORT`, or `rediss://` ' +
      'for TLS. Use `{ env: NAME }` if it has a password.',
    secret,
  ),
  cluster: describe(
    'The server is a Valkey or Redis Cluster; `url` names any of its nodes.',
    withDefault(z.boolean(), false),
  ),
  prefix: describe(
    'First part of every key and channel. Gateways with different prefixes are independent.',
    withDefault(id, 'firstlight'),
  ),
  lease_ms: describe(
    'If a replica sends no heartbeat for so long, the other replicas remove it and its bookings. Heartbeats ' +
      'are sent five times as often.',
    withDefault(int(1_000, 600_000), 15_000),
  ),
})

const webhook = strict({
  url: describe(
    'URL that gets alerts by POST, such as `https://alerts.example.com/firstlight`. Use `{ env: NAME }` if it ' +
      'contains a secret.',
    secret,
  ),
  secret: describe('Sent as `authorization: Bearer`. Absent: no such header.', z.optional(secret)),
})

const alerts = strict({
  webhook: describe(
    'Posts alerts about engines and pools: wedged, unreachable, faulty, saturated, slow, back in use ' +
      '(docs/recovery.md). Absent: none.',
    z.optional(webhook),
  ),
})

const regionPreference = strict({
  order: describe(
    'Regions (`region` of clusters), the preferred one first. Clusters of other regions follow. Absent: only keys ' +
      'with a `region_order` prefer regions.',
    z.optional(z.array(id).check(z.minLength(1))),
  ),
  when_full: describe(
    'What happens when the engines of a preferred region are full: `next` sends the request to the next region, ' +
      '`refuse` answers 429. A region that is down or has no engine is left for the next one in both cases.',
    withDefault(oneOf(['next', 'refuse']), 'next'),
  ),
  spill_ttft_ms: describe(
    'A region whose predicted time to the first token is longer counts as full, with `when_full: next`. Absent: a ' +
      'region is full when it refuses a request.',
    z.optional(milliseconds()),
  ),
})

const document = strict({
  version: describe(
    'Version of the document. Raise it with every change: cluster objects adopt only newer versions. Default: ' +
      'the modification time of the file on Node, the time of deployment on Workers.',
    z.optional(int(1, Number.MAX_SAFE_INTEGER)),
  ),
  listen: describe('Node only: HOST:PORT.', z.prefault(address, '127.0.0.1:8080')),
  tls: describe('Node only: HTTPS at `listen` (docs/deploy-node.md). Absent: plain HTTP.', z.optional(tls)),
  workers: describe(
    'Node only: number of I/O threads, or `auto`: the number of cores less one. From 2 on, a separate thread ' +
      'keeps the state of the pools (docs/scale.md).',
    withDefault(threads, 1),
  ),
  open: describe('Accept requests without keys from anyone who can connect.', withDefault(z.boolean(), false)),
  key_limits: describe('Limits of every key, unless the key has its own.', z.optional(keyLimits)),
  key_limits_fallback: describe(
    'What happens to requests of limited keys while the server of `replicas` (on Workers: the LimitObject) is ' +
      'unreachable. `share`: each gateway admits its share of the limits. `open`: all are admitted. `closed`: all ' +
      'are refused with 503.',
    withDefault(oneOf(['share', 'open', 'closed']), 'share'),
  ),
  keys: describe(
    'Client keys. Absent: on a loopback address no key is required; on others `open: true` is required.',
    z.optional(z.array(key).check(z.minLength(1))),
  ),
  jwt: describe(
    'Accept JSON Web Tokens of an identity provider as keys (docs/authentication.md). Absent: none.',
    z.optional(jwt),
  ),
  issued_keys: describe(
    'Keys that operators make and revoke at run time, through the admin API (docs/authentication.md). Absent: none.',
    z.optional(issuedKeys),
  ),
  teams: describe('Teams of keys, with limits that their keys share.', withDefault(z.array(team), [])),
  allowed_hosts: describe(
    'Node only: further `Host` names of a gateway on loopback without keys, such as `host.docker.internal` or ' +
      '`*.example.internal`. Loopback names are always allowed; others get 403, so that no web page reaches the ' +
      'gateway by DNS rebinding. Without effect with `keys` or `open: true`.',
    withDefault(z.array(hostName), []),
  ),
  admin: describe('Access to `/v1/firstlight/*`.', z.optional(admin)),
  bridge: describe(
    'Access to `/v1/firstlight/kv-events` only, for KV event bridges. Absent: bridges need the admin key.',
    z.optional(bridge),
  ),
  cors: describe('CORS: web pages that may call the API from a browser (docs/api.md). Absent: none.', z.optional(cors)),
  clusters: describe('Clusters of engines.', z.array(cluster).check(z.minLength(1))),
  region_preference: describe(
    'Order of preference between regions (docs/residency.md). Absent: regions are chosen by predicted time.',
    z.optional(regionPreference),
  ),
  weighted_models: describe(
    'Names that stand for several models by weight: canaries and gradual changes (docs/weighted-models.md).',
    withDefault(z.array(weightedModel), []),
  ),
  limits: describe('Limits of the gateway.', z.prefault(gatewayLimits, {})),
  log: describe('Structured logs.', z.prefault(log, {})),
  ttft: describe('Reports of the stages before the first token.', z.prefault(ttft, {})),
  metrics: describe('Prometheus metrics at `/metrics`.', z.prefault(metrics, {})),
  alerts: describe('Alerts for the operator.', z.prefault(alerts, {})),
  traces: describe('Tracing: spans of requests, by OTLP over HTTP.', z.prefault(traces, {})),
  record: describe(
    'Node only: record the traffic as a trace for `firstlight replay`: times, lengths and salted hashes, no ' +
      'text. Absent: nothing is recorded.',
    z.optional(record),
  ),
  epp: describe(
    'Node only: endpoint picker of the Gateway API Inference Extension for proxies such as Envoy ' +
      '(docs/endpoint-picker.md). Absent: none.',
    z.optional(epp),
  ),
  keda: describe(
    'Node only: external scaler for KEDA, which scales engines by the capacity of pools with `slo` ' +
      '(docs/kubernetes.md). Absent: none.',
    z.optional(keda),
  ),
  replicas: describe(
    'Node only: Valkey or Redis server over which gateways in front of the same engines exchange their ' +
      'bookings (docs/replicas.md). Absent: this gateway is the only one.',
    z.optional(replicas),
  ),
})

export const documentSchema = document.check(z.meta({ title: 'Firstlight configuration' }))
