/** Schema of an engine in the configuration document: its keys, its ranks, its KV events and its Kubernetes pods. */
import * as z from 'zod/mini'
import { MAX_RANKS } from '../core/contract/rank-id.ts'
import { SERVER_TYPES } from '../engines/engine-type.ts'
import {
  describe,
  hardware,
  headerName,
  id,
  int,
  label,
  modelName,
  number,
  oneOf,
  strict,
  text,
  withDefault,
  textLike,
} from './fields.ts'
import { kubernetesPods } from './kubernetes-schema.ts'
import { secret, secretText } from './secret-fields.ts'
import { baseUrl } from './url-fields.ts'

const zmqAddress = z
  .string()
  .check(z.regex(/^(tcp|ipc):\/\/[^\s*]+$/, { error: 'must be an address to connect to, like tcp://10.0.0.1:5557' }))

const kvEvents = strict({
  endpoint: describe('`endpoint` of the engine, as the bridge reaches it: `tcp://HOST:5557`.', zmqAddress),
  replay_endpoint: describe(
    '`replay_endpoint` of the engine. Absent: missed events cannot be requested again.',
    z.optional(zmqAddress),
  ),
  topic: describe('`topic` of the engine.', z.optional(text(255))),
})

const rankCount = int(1, MAX_RANKS)

const ranksRule = `must be off, auto, a number of ranks from 1 to ${MAX_RANKS}, or { ranks, first }`

const dataParallel = z.union([
  rankCount,
  z.enum(['off', 'auto'], { error: ranksRule }),
  strict({
    ranks: describe('Number of ranks behind the URL.', rankCount),
    first: describe(
      'Number of the first rank, which is not 0 on further nodes of a deployment (`--data-parallel-start-rank`).',
      withDefault(int(0, 65_535), 0),
    ),
  }),
])

export const bindingName = z
  .string()
  .check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'must be the name of a binding' }))

const absoluteFile = textLike(/^(\/|[A-Za-z]:[\\/]).{0,4095}$/, 'must be an absolute path')

const engineTls = strict({
  ca: describe(
    'File with the authorities of the engine’s certificate, PEM, instead of those that Node trusts. Absolute path, ' +
      'as the next two.',
    z.optional(absoluteFile),
  ),
  cert: describe(
    'File with the gateway’s certificate for the engine, PEM (mTLS). It needs `key`.',
    z.optional(absoluteFile),
  ),
  key: describe('File with its private key, PEM, without a passphrase.', z.optional(absoluteFile)),
})

export const engineShape = {
  id: describe('Name of the engine, unique in its cluster.', id),
  url: describe('Base URL, without `/v1`.', baseUrl),
  kind: describe(
    '`engine`: a model server of yours. `external`: the model at a provider, requested only if no other engine of ' +
      'any cluster can serve a request. It is not probed and has no KV cache. See docs/external.md.',
    withDefault(oneOf(['engine', 'external']), 'engine'),
  ),
  type: describe(
    'Server software. `auto`: recognised by its metrics, model list and version. See docs/engines.md.',
    withDefault(oneOf(['auto', ...SERVER_TYPES]), 'auto'),
  ),
  data_parallel: describe(
    'Data-parallel ranks behind the URL (vLLM, SGLang), each an engine `ID/RANK` (docs/engines.md). `auto`: as ' +
      'many as its metrics show. `{ ranks, first }`: `first` is the number of the first rank, which is not 0 on ' +
      'further nodes of a deployment. `off`: the server chooses the rank.',
    withDefault(dataParallel, 'off'),
  ),
  provider_model: describe('`external`: name of the model at the provider. Absent: the pool’s.', z.optional(modelName)),
  discover: describe(
    'Node only. `dns`: every address of the URL’s host is an engine named `ID-ADDRESS` (docs/deploy-node.md). ' +
      '`kubernetes`: every ready pod that `kubernetes` selects (docs/kubernetes.md). `inferencepool`: every pod ' +
      'and target port of an `InferencePool`. Absent: the URL is one engine.',
    z.optional(oneOf(['dns', 'kubernetes', 'inferencepool'])),
  ),
  kubernetes: describe('Pods of `discover: kubernetes` and `inferencepool`.', z.optional(kubernetesPods)),
  role: describe(
    'Work the engine accepts: everything, or one stage of disaggregated serving.',
    withDefault(oneOf(['any', 'prefill', 'decode', 'encode']), 'any'),
  ),
  models: describe(
    'Model and adapters the engine serves. Absent: all of the pool.',
    z.optional(z.array(modelName).check(z.minLength(1))),
  ),
  labels: describe(
    'Labels for operators, shown by `firstlight check`. Routing ignores them.',
    z.prefault(z.record(id, label), {}),
  ),
  weight: describe(
    'Share of traffic relative to the other engines, for policies that use weights. 0: no new requests.',
    withDefault(number(0, 1000), 1),
  ),
  key: describe('Bearer token sent to the engine; vLLM’s `--api-key`.', z.optional(secret)),
  headers: describe(
    'Headers sent on every request, such as access tokens of a tunnel.',
    z.prefault(z.record(headerName, secretText), {}),
  ),
  tls: describe(
    'Node only: certificates of connections to an https engine (docs/deploy-node.md#certificates-of-engines). ' +
      'Files that are replaced are used by new connections. Absent: those that Node trusts.',
    z.optional(engineTls),
  ),
  binding: describe(
    'Workers only: binding to fetch through, for engines in a private network.',
    z.optional(bindingName),
  ),
  max_in_flight: describe(
    'Maximum number of concurrent requests. Absent: the gateway sets no limit.',
    z.optional(int(1, 1_000_000)),
  ),
  prefix_caching: describe(
    'Whether the engine caches prefixes. `auto`: use what its metrics report.',
    withDefault(oneOf(['auto', 'on', 'off']), 'auto'),
  ),
  cache_blocks: describe(
    'Capacity of the KV cache, in blocks of the pool’s `block_tokens`. Absent: read from the engine’s metrics, or ' +
      'learned.',
    z.optional(int(1, 100_000_000)),
  ),
  context_tokens: describe(
    'Longest prompt with its output, in tokens. Longer requests go to other engines of the pool, if one has room. ' +
      'Absent: read from the engine’s model list.',
    z.optional(int(1, 1_000_000_000)),
  ),
  rtt_ms: describe('Network round trip from the gateway.', withDefault(number(0, 10_000), 0)),
  profile: describe(
    'Hardware whose speed is assumed until the engine’s own speed is learned: GPU, count and billions of ' +
      'parameters, such as `h100-8b` or `a100x4-70b`.',
    z.optional(hardware),
  ),
  lmcache_instance: describe('LMCache instance id of the engine. Absent: found by host.', z.optional(text(255))),
  kv_events: describe(
    'Where the engine publishes KV events, vLLM’s `--kv-events-config`. Only `firstlight bridge` uses it. ' +
      'Absent: the bridge asks the engine.',
    z.optional(kvEvents),
  ),
}

export const engine = strict(engineShape)
