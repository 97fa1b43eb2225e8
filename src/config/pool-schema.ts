/** What the document says of a pool and of its engines: every key, its default and its meaning (see schema.ts). */
import * as z from 'zod/mini'
import { defaultPolicy, policy } from './policies.ts'
import {
  baseUrl,
  number,
  hardware,
  headerName,
  id,
  label,
  milliseconds,
  modelName,
  oneOf,
  otherwise,
  describe,
  secret,
  secretText,
  strict,
  int,
  words,
} from './fields.ts'

const socket = z
  .string()
  .check(z.regex(/^(tcp|ipc):\/\/[^\s*]+$/, { error: 'must be an address to connect to, like tcp://10.0.0.1:5557' }))

const kvEvents = strict({
  endpoint: describe('Its `endpoint`, as the bridge reaches it: `tcp://HOST:5557`.', socket),
  replay_endpoint: describe('Its `replay_endpoint`. Absent: missed events cannot be asked for.', z.optional(socket)),
  topic: describe('Its `topic`.', z.optional(words(255))),
})

export const engine = strict({
  id: describe('Name of the engine, unique in its cluster.', id),
  url: describe('Base URL, without `/v1`.', baseUrl),
  discover: describe(
    'Node only. `dns`: every address that the host of `url` has is an engine, `ID-ADDRESS`, and comes and goes with it. Absent: the URL is one engine.',
    z.optional(oneOf(['dns'])),
  ),
  role: describe('What it may do.', otherwise(oneOf(['any', 'prefill', 'decode', 'encode']), 'any')),
  models: describe(
    'The model and adapters it serves, where it does not serve all of the pool’s.',
    z.optional(z.array(modelName).check(z.minLength(1))),
  ),
  labels: describe(
    'For people: `firstlight check` shows them. Nothing else reads them.',
    z.prefault(z.record(id, label), {}),
  ),
  weight: describe(
    'Share of traffic relative to its siblings, for policies that weigh. 0: no new requests.',
    otherwise(number(0, 1000), 1),
  ),
  key: describe('Sent as `authorization: Bearer`; vLLM’s `--api-key`.', z.optional(secret)),
  headers: describe(
    'Sent on every request, e.g. access tokens of a tunnel.',
    z.prefault(z.record(headerName, secretText), {}),
  ),
  binding: describe(
    'Workers only: fetch through this binding, for engines in a private network.',
    z.optional(z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'must be the name of a binding' }))),
  ),
  max_in_flight: describe('Requests it may hold at once. Absent: no limit of ours.', z.optional(int(1, 1_000_000))),
  prefix_caching: describe(
    'Does it keep prefixes? `auto`: believe its metrics.',
    otherwise(oneOf(['auto', 'on', 'off']), 'auto'),
  ),
  cache_blocks: describe(
    'KV blocks, of the pool’s `block_tokens`, that it can hold. Absent: from its metrics, or learned.',
    z.optional(int(1, 100_000_000)),
  ),
  rtt_ms: describe('Network round trip from the gateway.', otherwise(number(0, 10_000), 0)),
  profile: describe(
    'Hardware whose speed is assumed until the engine’s own is learned: GPU, count and billions of parameters, as in `h100-8b` or `a100x4-70b`.',
    z.optional(hardware),
  ),
  lmcache_instance: describe('Its LMCache instance id. Absent: found by host.', z.optional(words(255))),
  kv_events: describe(
    'Where it publishes KV events, vLLM’s `--kv-events-config`; `firstlight bridge` alone reads it. Absent: the bridge asks the engine.',
    z.optional(kvEvents),
  ),
})

const ports = z.array(int(1, 65_535)).check(z.minLength(1))

const receiver = strict({
  host: describe('Host the prefill engines reach this decode engine’s LMCache under.', words(255)),
  init_ports: describe('Its init ports, one per tensor-parallel rank.', ports),
  alloc_ports: describe('Its alloc ports, one per tensor-parallel rank.', ports),
})

const lmcacheSplit = strict({
  decoders: describe(
    'Decode engine’s id → its receiver. Every engine that may decode needs one.',
    z.optional(z.record(id, receiver)),
  ),
  decoder: describe('The receiver of the only decode engine, in place of `decoders`.', z.optional(receiver)),
  ready_url: describe(
    'Base URL of a bridge that knows which KV caches have arrived: `GET URL/REQUEST_ID?ranks=N` answers 200 once all have. Absent: nobody is asked.',
    z.optional(baseUrl),
  ),
  ready_ms: describe(
    'How long to wait for it; then the decode engine computes the prompt itself.',
    otherwise(milliseconds(), 5000),
  ),
  chat: describe(
    'Split chats too. Turn it off where engines run a reasoning or tool parser: the decode leg is a completion, which no parser reads.',
    otherwise(z.boolean(), true),
  ),
})

const encode = strict({
  concurrency: describe('Items of one request that are encoded at the same time.', otherwise(int(1, 256), 8)),
  cached_items: describe(
    'Items remembered as encoded and not sent again, by content. 0: none.',
    otherwise(int(0, 10_000_000), 10_000),
  ),
  limit_ms: describe('For one item.', otherwise(milliseconds(), 60_000)),
})

/** Of `split.threshold_tokens`, where nobody says. */
export const THRESHOLD_TOKENS = 2048

const split = strict({
  mode: describe(
    'When prefill and decode go to different engines. Default: `always` when the pool has prefill engines, else `never`.',
    z.optional(oneOf(['always', 'never', 'threshold', 'uncached', 'adaptive'])),
  ),
  threshold_tokens: describe(
    '`threshold`: prompts of this length and more are split; 0 or less: all. `uncached`: the same of the tokens that are not cached.',
    otherwise(int(-100_000_000, 100_000_000), THRESHOLD_TOKENS),
  ),
  estimate: describe(
    'How `threshold` counts: `tokens`, the gateway’s own count, or `chars4`, a quarter of the characters.',
    otherwise(oneOf(['tokens', 'chars4']), 'tokens'),
  ),
  connector: describe('How the KV cache travels.', otherwise(oneOf(['nixl', 'lmcache', 'response']), 'nixl')),
  fallback: describe('When no prefill engine can be had.', otherwise(oneOf(['decode_only', 'fail']), 'decode_only')),
  response_field: describe(
    '`response`: field of the decode leg that carries the prefill’s answer.',
    otherwise(words(128), 'disagg_prefill_resp'),
  ),
  lmcache: describe('`lmcache`: where KV caches are pushed to.', z.prefault(lmcacheSplit, {})),
  encode: describe('The stage before the prefill, in pools with encode engines.', z.prefault(encode, {})),
})

const lmcache = strict({
  coordinator: describe('Base URL of the multi-process coordinator.', z.optional(baseUrl)),
  controller: describe('Base URL of the legacy controller.', z.optional(baseUrl)),
  registry: describe(
    'The gateway itself is the registry: LMCache servers report to `/lmcache/CLUSTER`.',
    otherwise(z.boolean(), false),
  ),
  budget_ms: describe(
    'A lookup that takes longer, token ids from an engine included, is given up; the request goes on without.',
    otherwise(milliseconds(), 30),
  ),
  shared: describe(
    'Engines can read each other’s cache: the best match of any counts for each.',
    otherwise(z.boolean(), false),
  ),
  headers: describe(
    'Sent to the coordinator or controller, e.g. access tokens of a tunnel.',
    z.prefault(z.record(headerName, secretText), {}),
  ),
  binding: describe(
    'Workers only: ask through this binding.',
    z.optional(z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'must be the name of a binding' }))),
  ),
  model: describe(
    'The model’s name in LMCache’s keys: vLLM’s `--model`. Absent: asked of the engines.',
    z.optional(modelName),
  ),
  world_size: describe(
    'Ranks of one engine (TP x PP). Absent: read off the coordinator’s directory, else 1.',
    z.optional(int(1, 255)),
  ),
  chunk_tokens: describe('Registry only: tokens in a chunk, LMCache’s `--chunk-size`.', otherwise(int(1, 65_536), 256)),
  token: describe(
    'Registry only: what LMCache servers show, as `authorization: Bearer` or in the path `/lmcache/CLUSTER/TOKEN`. Absent: the admin key.',
    z.optional(secret),
  ),
})

const poolLimits = strict({
  connect_ms: describe('To open a connection to an engine.', otherwise(milliseconds(), 5000)),
  first_byte_ms: describe('From dispatch to the first body byte of a stream.', otherwise(milliseconds(), 600_000)),
  answer_ms: describe(
    'For a whole answer that does not stream. Not retried, and no failure of the engine: how long an answer takes is the client’s choice. The default is the time after which OpenAI’s SDKs give up.',
    otherwise(milliseconds(), 600_000),
  ),
  prefill_ms: describe('For the prefill leg of a split request.', otherwise(milliseconds(), 300_000)),
  idle_ms: describe(
    'Longest silence between bytes of a stream. There is no limit on its length.',
    otherwise(milliseconds(), 60_000),
  ),
  native_ms: describe(
    'Longest that a stream which passes natively (Workers) keeps its booking: nobody reads whether it lives. The stream itself goes on.',
    otherwise(milliseconds(), 3_600_000),
  ),
})

const session = strict({
  header: describe('Request header that names the session.', otherwise(headerName, 'x-session-id')),
  body: describe(
    'Body field that names it when the header is absent. `null`: none.',
    otherwise(z.nullable(words(128)), 'user'),
  ),
})

const retry = strict({
  share: describe('Retries allowed, as a share of requests.', otherwise(number(0, 1), 0.2)),
  min_per_s: describe('Retries a second that are always allowed.', otherwise(number(0, 1000), 1)),
})

const circuit = strict({
  failures: describe('Consecutive failures that take an engine out.', otherwise(int(1, 1000), 3)),
  open_ms: describe('For how long, before one request may try it.', otherwise(milliseconds(), 4_000)),
  max_ejected_share: describe(
    'Circuits open at once, as a share of the engines, rounded up; at least one. Engines that refuse connections are taken out beyond it.',
    otherwise(number(0, 1), 0.5),
  ),
  panic_share: describe(
    'Circuits are ignored while a smaller share of the engines than this is available, and no other cluster can serve the request. 0: never.',
    otherwise(number(0, 1), 0.1),
  ),
})

export const pool = strict({
  model: describe('Base model, as the engines serve it.', modelName),
  aliases: describe('Other names clients may use for it.', z.prefault(z.array(modelName), [])),
  adapters: describe('LoRA adapters served on top of it, by the engines’ names.', z.prefault(z.array(modelName), [])),
  policy: describe(
    'How an engine is chosen: a name, or `{ name: …, option: value }`.',
    otherwise(policy, defaultPolicy),
  ),
  shadow: describe(
    'A second policy that ranks the same requests and never acts; compare them in the decisions.',
    z.optional(policy),
  ),
  block_tokens: describe(
    'Tokens in a block of the gateway’s books. Best a multiple of the engines’ block size.',
    otherwise(int(1, 4096), 64),
  ),
  tokenizer: describe(
    'Compiled vocabulary: a file on Node, a key on Workers. Absent: bytes with a learned ratio.',
    z.optional(words(1024)),
  ),
  split: describe('Disaggregated prefill: see disaggregation.md.', z.prefault(split, {})),
  lmcache: describe('Where to ask what LMCache holds. Absent: nobody is asked.', z.optional(lmcache)),
  limits: describe('Time limits.', z.prefault(poolLimits, {})),
  stats_interval_ms: describe(
    'How often each engine’s `/health` and `/metrics` are read.',
    otherwise(milliseconds(100), 10_000),
  ),
  discover_interval_ms: describe(
    'Node only: how often the names of engines with `discover` are looked up. An address is gone when three answers in a row lack it.',
    otherwise(milliseconds(100), 5_000),
  ),
  observe_share: describe(
    'Share of streams whose events are read on the way. Default: 1 on Node, 0.1 on Workers, where reading costs more.',
    z.optional(number(0, 1)),
  ),
  session: describe(
    'What makes requests one conversation, for policies that keep those together.',
    z.prefault(session, {}),
  ),
  lease_ms: describe('A booking without a sign of life for this long lapses.', otherwise(milliseconds(1000), 60_000)),
  retry: describe('Budget for attempts on another engine, before the first byte.', z.prefault(retry, {})),
  circuit: describe('Circuit breaker of each engine.', z.prefault(circuit, {})),
  index_entries: describe(
    'Hard cap of the prefix index, entries over all engines; some 40 bytes each.',
    otherwise(int(1000, 10_000_000), 1_000_000),
  ),
  engines: describe('The model servers.', z.array(engine).check(z.minLength(1))),
})

export type PoolDocument = z.output<typeof pool>
export type EngineDocument = z.output<typeof engine>
