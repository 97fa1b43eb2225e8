/**
 * Schema of a pool in the configuration document: every key with its default and description.
 * docs/config.md and the JSON Schema are generated from it (`npm run docs`).
 */
import * as z from 'zod/mini'
import {
  strict,
  withDefault,
  snake,
  oneOf,
  describe,
  int,
  number,
  text,
  milliseconds,
  id,
  modelName,
  headerName,
  secret,
  secretText,
  baseUrl,
  hedgeMs,
} from './fields.ts'
import { bindingName, engine } from './engine-schema.ts'
import type { OptionSpec, PolicyKind } from '../core/routing/options.ts'
import { policyKinds } from '../core/routing/policies/index.ts'
import { didYouMean } from './problem.ts'
import type { PolicyConfig } from '../core/contract/contract.ts'

/* Schema of a routing policy and its options, generated from the core's list of policies. */

/** Policy of a pool that names none. */
export const defaultPolicy = 'predicted'

const names = policyKinds.map((kind) => kind.name)

const withOptions = z.union(atLeastOne(policyKinds.map(schemaOf)))

/** Schema of a policy: a name, or `{ name, option: value, … }`. Options that are absent keep the policy's defaults. */
export const policy = z.pipe(
  z.union([z.enum(names, { error: (issue) => unknownPolicy(issue.input) }), withOptions]),
  z.transform((written): PolicyConfig => {
    if (typeof written === 'string') return { name: written, options: {} }
    const { name, ...options } = written
    return {
      name,
      options: Object.fromEntries(
        Object.entries(options).filter(([, value]) => value !== null),
      ) as PolicyConfig['options'],
    }
  }),
)

function schemaOf({ name, doc, options }: PolicyKind) {
  const shape: Record<string, z.ZodMiniOptional<z.ZodMiniType<number | string | boolean>>> = {}
  for (const [option, spec] of Object.entries(options)) {
    const schema = z.optional(optionSchema(spec))
    shape[snake(option)] = schema.check(z.meta({ description: spec.doc, default: spec.default }))
  }
  return describe(doc, strict({ ...shape, name: z.enum([name], { error: (issue) => unknownPolicy(issue.input) }) }))
}

function optionSchema(spec: OptionSpec): z.ZodMiniType<number | string | boolean> {
  const { values, min = -Infinity, max = Infinity } = spec
  if (typeof spec.default === 'boolean') return z.boolean()
  if (typeof spec.default === 'number') return number(min, max)
  return values === undefined || values.length === 0 ? text(255) : oneOf(atLeastOne([...values]))
}

function atLeastOne<Item>(items: readonly Item[]): [Item, ...Item[]] {
  const [first, ...rest] = items
  if (first === undefined) throw new RangeError('An empty list of alternatives.')
  return [first, ...rest]
}

function unknownPolicy(name: unknown): string {
  return `must be a policy: ${names.join(', ')}${typeof name === 'string' ? didYouMean(name, names) : ''}`
}

const ports = z.array(int(1, 65_535)).check(z.minLength(1))

const receiver = strict({
  host: describe('Host under which prefill engines reach this decode engine’s LMCache.', text(255)),
  init_ports: describe('Init ports, one per tensor-parallel rank.', ports),
  alloc_ports: describe('Alloc ports, one per tensor-parallel rank.', ports),
})

const lmcacheSplit = strict({
  decoders: describe(
    'Receiver of each decode engine, by engine id. Required for every engine that may decode.',
    z.optional(z.record(id, receiver)),
  ),
  decoder: describe('Receiver of the only decode engine. Alternative to `decoders`.', z.optional(receiver)),
  ready_url: describe(
    'Base URL of a bridge that reports which KV caches have arrived: `GET URL/REQUEST_ID?ranks=N` returns 200 ' +
      'when all have. Absent: the gateway does not wait.',
    z.optional(baseUrl),
  ),
  ready_ms: describe(
    'Maximum wait for `ready_url`. After it, the decode engine computes the prompt itself.',
    withDefault(milliseconds(), 5000),
  ),
  chat: describe(
    'Also split chat requests. Disable it if engines run a reasoning or tool parser: the decode leg is a ' +
      'completion, which no parser reads.',
    withDefault(z.boolean(), true),
  ),
})

const encode = strict({
  concurrency: describe('Items of one request encoded concurrently.', withDefault(int(1, 256), 8)),
  cached_items: describe(
    'Number of encoded items remembered by content, which are not sent again. 0: none.',
    withDefault(int(0, 10_000_000), 10_000),
  ),
  limit_ms: describe('Time limit for one item.', withDefault(milliseconds(), 60_000)),
})

/** Default of `split.threshold_tokens`. */
export const THRESHOLD_TOKENS = 2048

const split = strict({
  mode: describe(
    'When prefill and decode run on different engines. Default: `always` if the pool has prefill engines, else ' +
      '`never`.',
    z.optional(oneOf(['always', 'never', 'threshold', 'uncached', 'adaptive'])),
  ),
  threshold_tokens: describe(
    '`threshold`: prompts with at least this many tokens are split; 0 or less: all. `uncached`: the same limit ' +
      'for the tokens that are not cached.',
    withDefault(int(-100_000_000, 100_000_000), THRESHOLD_TOKENS),
  ),
  estimate: describe(
    'How `threshold` counts tokens: `tokens`, the gateway’s count, or `chars4`, a quarter of the characters.',
    withDefault(oneOf(['tokens', 'chars4']), 'tokens'),
  ),
  connector: describe('How the KV cache is transferred.', withDefault(oneOf(['nixl', 'lmcache', 'response']), 'nixl')),
  fallback: describe(
    'What happens if no prefill engine is available.',
    withDefault(oneOf(['decode_only', 'fail']), 'decode_only'),
  ),
  response_field: describe(
    '`response`: field of the decode request that carries the prefill engine’s response.',
    withDefault(text(128), 'disagg_prefill_resp'),
  ),
  lmcache: describe('`lmcache`: where KV caches are pushed to.', z.prefault(lmcacheSplit, {})),
  encode: describe('Encode stage before the prefill, in pools with encode engines.', z.prefault(encode, {})),
})

const lmcache = strict({
  coordinator: describe('Base URL of the multi-process coordinator.', z.optional(baseUrl)),
  controller: describe('Base URL of the legacy controller.', z.optional(baseUrl)),
  registry: describe(
    'The gateway itself is the registry: LMCache servers report to `/lmcache/CLUSTER`.',
    withDefault(z.boolean(), false),
  ),
  budget_ms: describe(
    'Time budget of a lookup, including token ids from an engine. After it, the request continues without the result.',
    withDefault(milliseconds(), 30),
  ),
  shared: describe(
    'Engines can read each other’s cache: the best match of any engine counts for all.',
    withDefault(z.boolean(), false),
  ),
  headers: describe(
    'Headers sent to the coordinator or controller, such as access tokens of a tunnel.',
    z.prefault(z.record(headerName, secretText), {}),
  ),
  binding: describe('Workers only: binding to fetch through.', z.optional(bindingName)),
  model: describe(
    'Model name in LMCache’s keys: vLLM’s `--model`. Absent: read from the engines.',
    z.optional(modelName),
  ),
  world_size: describe(
    'Ranks of one engine (TP x PP). Absent: read from the coordinator’s directory, else 1.',
    z.optional(int(1, 255)),
  ),
  chunk_tokens: describe(
    'Registry only: tokens per chunk, LMCache’s `--chunk-size`.',
    withDefault(int(1, 65_536), 256),
  ),
  token: describe(
    'Registry only: token of LMCache servers, sent as `authorization: Bearer` or in the path ' +
      '`/lmcache/CLUSTER/TOKEN`. Absent: the admin key.',
    z.optional(secret),
  ),
})

const poolLimits = strict({
  connect_ms: describe('Timeout for opening a connection to an engine.', withDefault(milliseconds(), 5000)),
  first_byte_ms: describe(
    'Timeout from dispatch to the first body byte of a stream.',
    withDefault(milliseconds(), 600_000),
  ),
  answer_ms: describe(
    'Timeout for a complete response that does not stream. It is neither retried nor counted as a failure of ' +
      'the engine, because the client chooses how long a response takes. The default is the timeout of OpenAI’s ' +
      'SDKs.',
    withDefault(milliseconds(), 600_000),
  ),
  prefill_ms: describe('Timeout for the prefill leg of a split request.', withDefault(milliseconds(), 300_000)),
  idle_ms: describe(
    'Idle timeout between bytes of a stream. The total length of a stream is not limited.',
    withDefault(milliseconds(), 60_000),
  ),
  native_ms: describe(
    'Maximum time that a natively relayed stream (Workers) keeps its booking, because the gateway does not ' +
      'read it. The stream itself continues.',
    withDefault(milliseconds(), 3_600_000),
  ),
})

/* Admission control under overload. */

const slo = strict({
  ttft_ms: describe(
    'Time to the first token. A request is refused if waiting would make it later; never because its prompt is long.',
    z.optional(milliseconds()),
  ),
  ttft_ms_per_1k_tokens: describe('Added to `ttft_ms` for each 1,000 prompt tokens.', z.optional(number(0, 3_600_000))),
  itl_ms: describe(
    'Mean time between two tokens of a response. A request is refused if the predicted time between tokens of ' +
      'the streams on its engine would exceed this.',
    z.optional(milliseconds()),
  ),
})

const queue = strict({
  max_requests: describe('Most requests that wait. Further ones are refused.', withDefault(int(1, 10_000), 256)),
  max_wait_ms: describe('Longest wait. Then the request is refused.', withDefault(int(1, 10_000), 2_000)),
})

const overloadShape = {
  slo: describe(
    'Latency objectives for admission control under overload (docs/overload.md). Absent: requests are not ' +
      'refused for ' +
      'their latency.',
    z.optional(slo),
  ),
  max_waiting: describe(
    'Most requests that may wait for their first token, per engine. Further requests are refused.',
    withDefault(int(1, 1_000_000), 1_000),
  ),
  queue: describe(
    'Requests that would be refused for a lack of room wait for it (docs/overload.md). Absent: they are refused at ' +
      'once.',
    z.optional(queue),
  ),
  class_priority: describe(
    'The engines schedule by priority (vLLM with `--scheduling-policy priority`): requests of the class `critical` ' +
      'get `priority: -1` and those of `sheddable` 1, unless the request or its key has a priority of its own.',
    withDefault(z.boolean(), false),
  ),
}

const session = strict({
  header: describe(
    'Request header with the session id.',
    withDefault(headerName.check(z.toLowerCase()), 'x-session-id'),
  ),
  body: describe(
    'Body field with the session id, used if the header is absent. `null`: none.',
    withDefault(z.nullable(text(128)), 'user'),
  ),
})

const retry = strict({
  share: describe('Retry budget, as a share of requests.', withDefault(number(0, 1), 0.2)),
  min_per_s: describe('Retries per second that are always allowed.', withDefault(number(0, 1000), 1)),
  mid_stream: describe(
    'What happens to a stream whose engine fails after the first byte. `off`: it ends with an error event. `ids`: ' +
      'another engine continues it by its token ids (docs/continuation.md). `replay`: requests with a grammar, tools ' +
      'or ' +
      'images are also repeated from the start, if they are greedy or have a seed; what the client has is not sent ' +
      'again.',
    withDefault(z.enum(['off', 'ids', 'replay']), 'off'),
  ),
  mid_stream_replay_ms: describe(
    'Longest output to generate again with `replay`, as the time that the failed engine took for it. The request ' +
      'body ' +
      'stays in memory for this time.',
    withDefault(int(1, 600_000), 10_000),
  ),
  mid_stream_max: describe('Most continuations of one stream.', withDefault(int(1, 10), 1)),
  hedge_ms: describe(
    'When a request without a first byte is also sent to a second engine (docs/forwarding.md): after this time, or ' +
      '(`auto`, streams only) after the 99th percentile of its predicted time to first token.',
    withDefault(hedgeMs, 'off'),
  ),
})

const circuit = strict({
  failures: describe('Consecutive failures that open the circuit.', withDefault(int(1, 1000), 3)),
  open_ms: describe('Time before a half-open circuit allows one trial request.', withDefault(milliseconds(), 4_000)),
  max_ejected_share: describe(
    'Maximum share of engines whose circuits are open at once, rounded up; at least one. Engines that refuse ' +
      'connections are ejected beyond it.',
    withDefault(number(0, 1), 0.5),
  ),
  panic_share: describe(
    'Panic threshold: circuits are ignored while a smaller share of the engines is available and no other ' +
      'cluster can serve the request. 0: never.',
    withDefault(number(0, 1), 0.1),
  ),
})

export const poolShape = {
  model: describe('Base model, under the name that the engines serve.', modelName),
  aliases: describe('Other model names that clients may use.', z.prefault(z.array(modelName), [])),
  adapters: describe('LoRA adapters of the model, under the engines’ names.', z.prefault(z.array(modelName), [])),
  policy: describe('Routing policy: a name, or `{ name: …, option: value }`.', z.prefault(policy, defaultPolicy)),
  shadow: describe(
    'Second policy that ranks the same requests without effect. Decisions record what it would have chosen.',
    z.optional(policy),
  ),
  block_tokens: describe(
    'Tokens per block of the gateway’s prefix index. Use a multiple of the engines’ block size.',
    withDefault(int(1, 4096), 64),
  ),
  tokenizer: describe(
    'Compiled vocabulary: a file on Node, a key on Workers. Absent: tokens are estimated from bytes by a ' +
      'learned ratio.',
    z.optional(text(1024)),
  ),
  split: describe('Disaggregated prefill: see disaggregation.md.', z.prefault(split, {})),
  lmcache: describe('LMCache lookups. Absent: none.', z.optional(lmcache)),
  limits: describe('Timeouts.', z.prefault(poolLimits, {})),
  stats_interval_ms: describe(
    'Interval at which each engine’s `/health` and `/metrics` are read.',
    withDefault(milliseconds(100), 10_000),
  ),
  discover_interval_ms: describe(
    'Node only: interval of the DNS lookups for engines with `discover`. An address is removed when three ' +
      'answers in a row lack it. For pods: interval at which `/v1/models` and `/is_sleeping` are read.',
    withDefault(milliseconds(100), 5_000),
  ),
  observe_share: describe(
    'Share of streams whose events the gateway parses. Default: 1 on Node, 0.1 on Workers, where parsing costs more.',
    z.optional(number(0, 1)),
  ),
  session: describe(
    'How requests are assigned to a session, for policies with sticky sessions.',
    z.prefault(session, {}),
  ),
  lease_ms: describe(
    'Lease of a booking. A booking that is not renewed for this long expires.',
    withDefault(milliseconds(1000), 60_000),
  ),
  retry: describe(
    'Budget for attempts on another engine, continuation of streams, and hedging.',
    z.prefault(retry, {}),
  ),
  circuit: describe('Circuit breaker of each engine.', z.prefault(circuit, {})),
  ...overloadShape,
  index_entries: describe(
    'Maximum number of entries of the prefix index, over all engines; about 40 bytes each.',
    withDefault(int(1000, 10_000_000), 1_000_000),
  ),
  shards: describe(
    'Workers only: number of Durable Objects that share the pool, each with its own engines. Use 1 up to 500 ' +
      'requests ' +
      'per second, and at least 8 engines per object. Raise the cluster’s `generation` with every change.',
    withDefault(int(1, 256), 1),
  ),
  engines: describe('Model servers of the pool.', z.array(engine).check(z.minLength(1))),
}
export const pool = strict(poolShape)
