/**
 * Schema of a pool in the configuration document: every key with its default and description.
 * docs/config.md and the JSON Schema are generated from it (`npm run docs`).
 */
import * as z from 'zod/mini'
import { adapters } from './adapter-schema.ts'
import { engine } from './engine-schema.ts'
import {
  clientModel,
  describe,
  headerName,
  int,
  milliseconds,
  modelName,
  number,
  oneOf,
  strict,
  text,
  textLike,
  withDefault,
} from './fields.ts'
import { lmcache } from './lmcache-schema.ts'
import { optionalMirror } from './mirror-schema.ts'
import { overloadShape } from './overload-schema.ts'
import { defaultPolicy, policy } from './policy-schema.ts'
import { split } from './split-schema.ts'

const hedgeRule = 'must be off, auto, or a number of milliseconds from 1 to 600000'

const hedgeMs = z.union([int(1, 600_000), z.enum(['off', 'auto'], { error: hedgeRule })])

const poolLimits = strict({
  connect_ms: describe('Timeout for opening a connection to an engine.', withDefault(milliseconds(), 5000)),
  first_byte_ms: describe(
    'Timeout from dispatch to the first body byte of a stream.',
    withDefault(milliseconds(), 600_000),
  ),
  answer_ms: describe(
    'Timeout for a complete response that does not stream. It is neither retried nor counted as a failure of the ' +
      'engine, because the client chooses how long a response takes. The default is the timeout of OpenAI’s SDKs.',
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

const SECRET_HEADERS: ReadonlySet<string> = new Set(['authorization', 'proxy-authorization', 'x-api-key', 'cookie'])

const sessionHeader = headerName.check(
  z.toLowerCase(),
  z.refine((name) => !SECRET_HEADERS.has(name), {
    error:
      'must not be authorization, proxy-authorization, x-api-key or cookie: they hold secrets, and sessions are logged',
  }),
)

const sessionPath = textLike(
  /^[^\s.\p{Cc}]{1,128}(?:\.[^\s.\p{Cc}]{1,128}){0,7}$/u,
  'must be a field of the body, or a path of at most 8 fields like metadata.chat_id',
)

/** One text, or a list. */
const oneOrMore = <Item extends z.ZodMiniType>(item: Item) => z.union([item, z.array(item).check(z.maxLength(16))])

const session = strict({
  header: describe(
    'Request header with the session id, or a list: the first one present is used, before those of `known`.',
    withDefault(oneOrMore(sessionHeader), []),
  ),
  body: describe(
    'Body field with the session id, or a list, used if no header of `header` is present. Dots separate nested ' +
      'fields: `metadata.chat_id`.',
    withDefault(oneOrMore(sessionPath), []),
  ),
  known: describe(
    'Also use what known clients send (docs/routing.md#sessions), last the body’s `user`.',
    withDefault(z.boolean(), true),
  ),
})

const retry = strict({
  share: describe('Retry budget, as a share of requests.', withDefault(number(0, 1), 0.2)),
  min_per_s: describe('Retries per second that are always allowed.', withDefault(number(0, 1000), 1)),
  mid_stream: describe(
    'What happens to a stream whose engine fails after the first byte (docs/continuation.md). `off`: it ends with ' +
      'an error event. `ids`: another engine continues it by its token ids. `replay`: greedy and seeded requests ' +
      'with a grammar, tools or images are also repeated.',
    withDefault(z.enum(['off', 'ids', 'replay']), 'off'),
  ),
  mid_stream_replay_ms: describe(
    'Maximum output to generate again with `replay`, as the time that the failed engine took for it. The request ' +
      'body stays in memory for this time.',
    withDefault(int(1, 600_000), 10_000),
  ),
  mid_stream_max: describe('Maximum number of continuations of one stream.', withDefault(int(1, 10), 1)),
  hedge_ms: describe(
    'When a request without a first byte is also sent to a second engine (docs/forwarding.md): after this time, or ' +
      '(`auto`, streams only) after the 99th percentile of its predicted time to first token.',
    withDefault(hedgeMs, 'off'),
  ),
})

const canary = strict({
  share: describe(
    'Share of greedy chats and completions (`temperature: 0`) whose first tokens are compared.',
    withDefault(number(0.000_001, 1), 0.001),
  ),
  eject: describe('Engines whose answers stand out get no requests.', withDefault(z.boolean(), false)),
})

const cost = strict({
  price_per_engine_hour: describe(
    'Price of one engine of the pool per hour, in any currency: usage then shows money beside engine seconds. ' +
      'Absent: no money.',
    z.optional(number(0, 1_000_000)),
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
  aliases: describe(
    'Other model names that clients may use. One `*` in an alias stands for any characters: `claude-*` also ' +
      'matches `claude-opus-4-8[1m]` and dated names. Exact names come first, then the narrowest pattern. Patterns ' +
      'are not listed in `/v1/models`.',
    z.prefault(z.array(clientModel), []),
  ),
  response_model: describe(
    '`model` of responses. `served`: as the engine sends it. `requested`: the name that the client requested, for ' +
      'clients that reject another one. Streams are then read and edited, also on Workers.',
    withDefault(oneOf(['served', 'requested']), 'served'),
  ),
  adapters: describe(
    'LoRA adapters of the model: names, an object that also lets engines load them, or `auto`: those that engines ' +
      'have loaded (docs/engines.md).',
    z.prefault(adapters, []),
  ),
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
    'Compiled vocabulary: a file on Node, a key on Workers. Absent: tokens are estimated from bytes by a learned ' +
      'ratio.',
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
      'answers in a row lack it. For pods: interval at which `/v1/models` is read.',
    withDefault(milliseconds(100), 5_000),
  ),
  observe_share: describe(
    'Share of streams whose events the gateway parses. Default: 1 on Node, 0.1 on Workers, where parsing costs more.',
    z.optional(number(0, 1)),
  ),
  session: describe(
    'Where clients name their session, for sticky sessions, fair queues, logs and traces.',
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
  canary: describe(
    'Semantic canary: repeat a share of greedy requests on two engines and compare the answers (docs/recovery.md). ' +
      'Absent: none.',
    z.optional(canary),
  ),
  mirror: optionalMirror,
  cost: describe(
    'Count the engine seconds of each request, per key, team and model (docs/cost.md). Absent: they are not counted.',
    z.optional(cost),
  ),
  circuit: describe('Circuit breaker of each engine.', z.prefault(circuit, {})),
  ...overloadShape,
  index_entries: describe(
    'Maximum number of entries of the prefix index, over all engines; about 40 bytes each.',
    withDefault(int(1000, 10_000_000), 1_000_000),
  ),
  shards: describe(
    'Workers only: number of Durable Objects that share the pool, each with its own engines. Use 1 up to 500 ' +
      'requests per second, and at least 8 engines per object. Raise the cluster’s `generation` with every change.',
    withDefault(int(1, 256), 1),
  ),
  engines: describe('Model servers of the pool.', z.array(engine).check(z.minLength(1))),
}

export const pool = strict(poolShape)
