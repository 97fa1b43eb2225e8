/** The servers that rows ask for, which of them stand behind one gateway, and so who may run beside whom. */
import { freePorts } from './http.ts'
import type { LmcacheServers } from './lmcache-servers.ts'

/**
 * `nixl`, `prefill` and `decode` run the NIXL connector; `little` has room for 200 blocks; `slow-a` and `slow-b` run
 * a model whose prefills take their time; `left` and `right` keep their blocks in an LMCache server each; `ear` hears.
 */
export type EngineName =
  | 'a'
  | 'b'
  | 'nixl'
  | 'prefill'
  | 'decode'
  | 'little'
  | 'slow-a'
  | 'slow-b'
  | 'left'
  | 'right'
  | 'ear'

export interface EngineSpec {
  readonly model?: 'tiny' | 'small' | 'whisper'
  /** After the flags of all: the last one counts. */
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** An address of its own, so that it can be found by its host. */
  readonly host?: string
}

/** Made anew for each start, but for a restart. */
export async function specOf(name: EngineName, lmcache: () => Promise<LmcacheServers>): Promise<EngineSpec> {
  if (name === 'nixl' || name === 'prefill' || name === 'decode') return nixl()
  if (name === 'little') return { args: ['--num-gpu-blocks-override', '200'] }
  if (name === 'slow-a' || name === 'slow-b')
    return {
      model: 'small',
      args: ['--max-model-len', '8192', '--num-gpu-blocks-override', '4000'],
      env: { VLLM_CPU_KVCACHE_SPACE: '3' },
    }
  if (name === 'left' || name === 'right') return (await lmcache()).engineSpec(name)
  if (name === 'ear') return { model: 'whisper', args: earFlags }
  return {}
}

/**
 * Whisper's texts are of 448 tokens at most, and told to keep their prefixes it ends at the first request. Pages may
 * ask it.
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

/**
 * Moves KV blocks between engines over CPU memory. With it, a body that says `do_remote_prefill` and no more ends the
 * server.
 */
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

export interface Fleet {
  readonly engines: readonly EngineName[]
  /** Added to the configuration of each engine. */
  readonly each?: object
  /** Behind a relay: see `Lab.relay`. */
  readonly relayed?: EngineName
  /** Added to the configuration's top. */
  readonly document?: object
  /** Added to the pool's configuration. */
  pool?(lmcache: () => Promise<LmcacheServers>): Promise<object>
}

/** Bound of a whole answer in the fleet `bounded`. */
export const boundedAnswerMs = 5_000
/** Prompts of so many tokens and more are split in the fleet `threshold`. */
export const thresholdTokens = 200
/** A page in a browser. */
export const page = 'https://chat.example.com'
/** The gateway as LMCache's registry is shown this. */
export const registryToken = 'registry-secret'

export const fleets = {
  plain: { engines: ['a', 'b'] },
  // Whole answers are bounded: on workerd nothing else ends one whose client has left.
  bounded: { engines: ['a', 'b'], pool: async () => ({ limits: { answer_ms: boundedAnswerMs } }) },
  nixl: { engines: ['a', 'nixl'] },
  split: { engines: ['prefill', 'decode'] },
  // What the prefill engine says can be held up.
  held: { engines: ['prefill', 'decode'], relayed: 'prefill' },
  threshold: {
    engines: ['prefill', 'decode'],
    pool: async () => ({ split: { mode: 'threshold', threshold_tokens: thresholdTokens } }),
  },
  little: { engines: ['little'], pool: async () => ({ policy: 'predicted' }) },
  // Ten times what it has: the gateway believes its configuration before an engine's own word.
  'little-misled': { engines: ['little'], each: { cache_blocks: 2000 }, pool: async () => ({ policy: 'predicted' }) },
  slow: { engines: ['slow-a'], pool: async () => ({ policy: 'predicted' }) },
  'slow-pair': { engines: ['slow-a', 'slow-b'], pool: async () => ({ policy: 'predicted' }) },
  coordinator: {
    engines: ['left', 'right'],
    pool: async (lmcache) => ({
      policy: 'kv_aware',
      lmcache: { coordinator: (await lmcache()).asked.url, budget_ms: 250 },
    }),
  },
  registry: {
    engines: ['left', 'right'],
    pool: async () => ({ policy: 'kv_aware', lmcache: { registry: true, chunk_tokens: 256, token: registryToken } }),
  },
  ear: { engines: ['ear'] },
  // Which pages may ask the gateway.
  'ear-pages': { engines: ['ear'], document: { cors: { origins: [page] } } },
} as const satisfies Readonly<Record<string, Fleet>>

export type FleetName = keyof typeof fleets

/** An idle NIXL worker keeps half a core busy, so nothing runs beside an engine that need not. */
export function mayRunBeside(one: EngineName, other: EngineName): boolean {
  return Object.values(fleets).some(({ engines }: Fleet) => engines.includes(one) && engines.includes(other))
}
