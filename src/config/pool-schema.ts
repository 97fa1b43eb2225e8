/** What the document says of a pool and of its engines: every key, its default and its meaning (see schema.ts). */
import * as z from 'zod/mini'
import { defaultPolicy, policy } from './policies.ts'
import { baseUrl, decimal, hardware, headerName, id, label, milliseconds, modelName, oneOf, otherwise, say, secret, secretText, strict, whole, words } from './values.ts'

const socket = z.string().check(z.regex(/^(tcp|ipc):\/\/[^\s*]+$/, { error: 'must be an address to connect to, like tcp://10.0.0.1:5557' }))

const kvEvents = strict({
  endpoint: say(import.meta.bare || 'Its `endpoint`, as the bridge reaches it: `tcp://HOST:5557`.', socket),
  replay_endpoint: say(import.meta.bare || 'Its `replay_endpoint`. Absent: missed events cannot be asked for.', z.optional(socket)),
  topic: say(import.meta.bare || 'Its `topic`.', z.optional(words(255))),
})

export const engine = strict({
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

export const pool = strict({
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

export type PoolDocument = z.output<typeof pool>
export type EngineDocument = z.output<typeof engine>
