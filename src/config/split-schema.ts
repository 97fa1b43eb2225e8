/** Schema of `split`: disaggregated prefill and encode stage. */
import * as z from 'zod/mini'
import { MOONCAKE_PORT } from '../engines/mooncake-transfer.ts'
import { BOOTSTRAP_PORT } from '../engines/sglang-bootstrap.ts'
import { describe, id, int, milliseconds, oneOf, strict, text, withDefault } from './fields.ts'
import { baseUrl } from './url-fields.ts'

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

const bootstrapPorts = describe(
  'Ports of prefill engines that have another one, by engine id.',
  withDefault(z.record(id, int(1, 65_535)), {}),
)

const sglangSplit = strict({
  bootstrap_port: describe(
    'Port of the bootstrap server of prefill engines (`--disaggregation-bootstrap-port`).',
    withDefault(int(1, 65_535), BOOTSTRAP_PORT),
  ),
  bootstrap_ports: bootstrapPorts,
})

const mooncakeSplit = strict({
  bootstrap_port: describe(
    'Port of the bootstrap server of prefill engines (`VLLM_MOONCAKE_BOOTSTRAP_PORT`).',
    withDefault(int(1, 65_535), MOONCAKE_PORT),
  ),
  bootstrap_ports: bootstrapPorts,
})

const encode = strict({
  concurrency: describe('Items of one request encoded concurrently.', withDefault(int(1, 256), 8)),
  cached_items: describe(
    'Number of encoded items that are recorded by content and not sent again. 0: none.',
    withDefault(int(0, 10_000_000), 10_000),
  ),
  limit_ms: describe('Time limit for one item.', withDefault(milliseconds(), 60_000)),
})

/** Default of `split.threshold_tokens`. */
export const THRESHOLD_TOKENS = 2048

export const split = strict({
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
  connector: describe(
    'How the KV cache is transferred.',
    withDefault(oneOf(['nixl', 'mooncake', 'lmcache', 'response', 'sglang', 'tensorrt']), 'nixl'),
  ),
  fallback: describe(
    'What happens if no prefill engine is available.',
    withDefault(oneOf(['decode_only', 'fail']), 'decode_only'),
  ),
  response_field: describe(
    '`response`: field of the decode request that carries the prefill engine’s response.',
    withDefault(text(128), 'disagg_prefill_resp'),
  ),
  lmcache: describe('`lmcache`: where KV caches are pushed to.', z.prefault(lmcacheSplit, {})),
  mooncake: describe(
    '`mooncake`: where the gateway and decode engines find the prefill engines.',
    z.prefault(mooncakeSplit, {}),
  ),
  sglang: describe('`sglang`: where decode engines find the prefill engines.', z.prefault(sglangSplit, {})),
  encode: describe('Encode stage before the prefill, in pools with encode engines.', z.prefault(encode, {})),
})
