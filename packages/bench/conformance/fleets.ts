/** Servers that rows request, the servers of each gateway, and which servers can run at the same time. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { adapterFolder, adapterNames } from './environment.ts'
import type { EngineName, EngineSpec } from './engine-spec.ts'
import { freePorts } from './http.ts'
import type { LmcacheServers } from './lmcache-servers.ts'

/** Created for each start, except for a restart. */
export async function specOf(name: EngineName, lmcache: () => Promise<LmcacheServers>): Promise<EngineSpec> {
  if (name === 'nixl' || name === 'prefill' || name === 'decode') return nixl()
  if (name === 'file-prefill' || name === 'file-decode') return files
  if (name === 'little') return { args: ['--num-gpu-blocks-override', '200'] }
  if (name === 'slow-a' || name === 'slow-b')
    return {
      model: 'small',
      core: name === 'slow-a' ? 0 : 1,
      // Room for 32 conversations on two engines.
      args: [
        '--max-model-len',
        '8192',
        '--num-gpu-blocks-override',
        '4000',
        '--max-num-seqs',
        '16',
        '--max-num-queued-reqs',
        '64',
      ],
      env: { VLLM_CPU_KVCACHE_SPACE: '3' },
    }
  if (name === 'left' || name === 'right') return (await lmcache()).engineSpec(name)
  if (name === 'ranks') return ranks()
  if (name === 'wide-a' || name === 'wide-b') return { args: wideFlags }
  if (name === 'lora-a' || name === 'lora-b') return { args: loraFlags, env: { VLLM_ALLOW_RUNTIME_LORA_UPDATING: '1' } }
  if (name === 'encode') return encoded('ec_producer')
  if (name === 'eye') return encoded('ec_consumer')
  if (name === 'ear') return { model: 'whisper', args: earFlags }
  return {}
}

/** On a CPU, a request with a seed ends the server if its prefill takes more than one step (vLLM 0.32). */
const wideFlags: readonly string[] = [
  '--max-num-seqs',
  '32',
  '--max-num-queued-reqs',
  '64',
  '--max-num-batched-tokens',
  '32768',
]

/** Room for one adapter more than the gateway loads. */
const loraFlags: readonly string[] = ['--enable-lora', '--max-loras', '2', '--max-lora-rank', '8']

/**
 * Whisper's texts have at most 448 tokens, and with prefix caching it exits at the first request. Pages may call it.
 */
export const earFlags: readonly string[] = [
  '--max-model-len',
  '448',
  '--no-enable-prefix-caching',
  '--kv-events-config',
  '{"enable_kv_cache_events":false}',
  '--allowed-origins',
  '["*"]',
]

/** Rank 1 publishes one port above rank 0, and so do its replays. */
async function ranks(): Promise<EngineSpec> {
  const [port] = await freePorts(1)
  const events = {
    enable_kv_cache_events: true,
    publisher: 'zmq',
    endpoint: `tcp://*:${port}`,
    replay_endpoint: `tcp://*:${port! + 2}`,
  }
  return {
    args: ['--data-parallel-size', '2', '--api-server-count', '1', '--kv-events-config', JSON.stringify(events)],
  }
}

/** Moves KV blocks between engines over CPU memory. With it, a body with only `do_remote_prefill` ends the server. */
async function nixl(): Promise<EngineSpec> {
  const [port] = await freePorts(1)
  return {
    args: [
      '--kv-transfer-config',
      JSON.stringify({ kv_connector: 'NixlConnector', kv_role: 'kv_both', kv_buffer_device: 'cpu' }),
    ],
    env: { VLLM_NIXL_SIDE_CHANNEL_HOST: '127.0.0.1', VLLM_NIXL_SIDE_CHANNEL_PORT: String(port), UCX_TLS: 'all' },
  }
}

/** Blocks of `file-prefill` and `file-decode`. */
export const sharedFiles = join(tmpdir(), `firstlight-kv-${process.pid}`)

/** vLLM's example connector: blocks as files, found by a hash of the prompt's tokens. */
const files: EngineSpec = {
  args: [
    '--kv-transfer-config',
    JSON.stringify({
      kv_connector: 'ExampleConnector',
      kv_role: 'kv_both',
      kv_connector_extra_config: { shared_storage_path: sharedFiles },
    }),
  ],
}

/** Encoded images of `encode` and `eye`. */
export const encodedFiles = join(tmpdir(), `firstlight-ec-${process.pid}`)

/** vLLM's example connector for encoded images: files named by a hash of the image. Its log names each file it loads. */
function encoded(role: 'ec_producer' | 'ec_consumer'): EngineSpec {
  const transfer = {
    ec_connector: 'ECExampleConnector',
    ec_role: role,
    ec_connector_extra_config: { shared_storage_path: encodedFiles },
  }
  return {
    model: 'llava',
    args: ['--max-model-len', '2048', '--ec-transfer-config', JSON.stringify(transfer)],
    env: { VLLM_LOGGING_LEVEL: 'DEBUG' },
  }
}

export interface Fleet {
  readonly engines: readonly EngineName[]
  /** Added to the configuration of each engine. */
  readonly each?: object
  /** Engine behind a relay: see `Lab.relay`. */
  readonly relayed?: EngineName
  /** Added to the configuration's top. */
  readonly document?: object
  /** Added to the pool's configuration. */
  pool?(lmcache: () => Promise<LmcacheServers>): Promise<object>
}

/** Time limit of a whole response in the fleet `bounded`. */
export const boundedAnswerMs = 5_000

/** Prompts with at least this many tokens are split in the fleet `threshold`. */
export const thresholdTokens = 200

/** Origin of a page in a browser. */
export const page = 'https://chat.example.com'

/** Token for the gateway as LMCache's registry. */
export const registryToken = 'registry-secret'

/** Objective of the row about overload, ms. */
export const overloadSloMs = 4_000

export const fleets = {
  plain: { engines: ['a', 'b'] },
  // Whole responses have a time limit: on workerd nothing else ends one whose client has left.
  bounded: { engines: ['a', 'b'], pool: async () => ({ limits: { answer_ms: boundedAnswerMs } }) },
  sleepers: {
    engines: ['a', 'b'],
    pool: async () => ({ policy: 'predicted', wake: 'on_demand', queue: { no_engine_wait_ms: 120_000 } }),
  },
  nixl: { engines: ['a', 'nixl'] },
  split: { engines: ['prefill', 'decode'] },
  files: {
    engines: ['file-prefill', 'file-decode'],
    pool: async () => ({ split: { connector: 'response' } }),
  },
  // The relay can delay responses of the prefill engine.
  held: { engines: ['prefill', 'decode'], relayed: 'prefill' },
  threshold: {
    engines: ['prefill', 'decode'],
    pool: async () => ({ split: { mode: 'threshold', threshold_tokens: thresholdTokens } }),
  },
  little: { engines: ['little'], pool: async () => ({ policy: 'predicted' }) },
  // Ten times its cache: configured values override those that the engine reports.
  'little-misled': { engines: ['little'], each: { cache_blocks: 2000 }, pool: async () => ({ policy: 'predicted' }) },
  slow: { engines: ['slow-a'], pool: async () => ({ policy: 'predicted' }) },
  'slow-pair': { engines: ['slow-a', 'slow-b'], pool: async () => ({ policy: 'predicted' }) },
  'slow-pair-slo': {
    engines: ['slow-a', 'slow-b'],
    pool: async () => ({ policy: 'predicted', slo: { ttft_ms: overloadSloMs } }),
  },
  coordinator: {
    engines: ['left', 'right'],
    pool: async (lmcache) => ({
      policy: 'kv_aware',
      lmcache: { coordinator: (await lmcache()).lookups.url, budget_ms: 250 },
    }),
  },
  registry: {
    engines: ['left', 'right'],
    pool: async () => ({ policy: 'kv_aware', lmcache: { registry: true, chunk_tokens: 256, token: registryToken } }),
  },
  // Most streams of a session run on one engine, and may move to the other at once.
  continued: {
    engines: ['wide-a', 'wide-b'],
    pool: async () => ({ policy: 'session', retry: { mid_stream: 'ids', share: 1, min_per_s: 100 } }),
  },
  // The gateway loads them by name, and keeps one per engine.
  adapters: {
    engines: ['lora-a', 'lora-b'],
    pool: async () => ({
      policy: 'predicted',
      adapters: { names: adapterNames, load: true, path: adapterFolder('{name}'), max_per_engine: 1 },
    }),
  },
  encoded: { engines: ['encode', 'eye'] },
  ear: { engines: ['ear'] },
  ranks: { engines: ['ranks'], each: { data_parallel: 'auto' } },
  // Origins that may call the gateway.
  'ear-pages': { engines: ['ear'], document: { cors: { origins: [page] } } },
} as const satisfies Readonly<Record<string, Fleet>>

export type FleetName = keyof typeof fleets

/** An idle NIXL worker uses half a core, so only required engines run beside it. */
export function mayRunBeside(one: EngineName, other: EngineName): boolean {
  return Object.values(fleets).some(({ engines }: Fleet) => engines.includes(one) && engines.includes(other))
}
