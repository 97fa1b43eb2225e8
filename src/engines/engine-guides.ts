/**
 * What commands and docs use of the types of engines, beyond `EngineType`: advice of `firstlight doctor`, sockets that
 * `firstlight bridge` reads, names in configurations of other products. No gateway imports it, so no Worker has it.
 */
import { isJsonObject } from '../core/json.ts'
import { ENGINE_TYPES } from './engine-registry.ts'
import type { EngineCall, EngineTypeName, EngineType } from './engine-type.ts'
import type { Inspection } from './inspection.ts'
import { type KvEventSource, readSglangSources, readVllmSources } from './kv-event-source.ts'
import { vllmInspection } from './vllm-inspection.ts'

interface CacheReset {
  readonly call: EngineCall
  /** false: try again, since running requests hold blocks. */
  readonly succeeded: (status: number, json: unknown) => boolean
  readonly enabledBy: string | null
}

/** KV events over ZeroMQ in vLLM's three frames: topic, sequence, msgpack batch. */
export interface KvEventRules {
  /** Route that lists the sockets of each rank. null: they are configured. */
  readonly sources: { readonly path: string; readonly read: (json: unknown) => readonly KvEventSource[] | null } | null
  /** Block hashes are signed 64-bit integers. null: not verified. */
  readonly signedHashes: boolean | null
  /** `medium` of blocks that the device holds. */
  readonly deviceMediums: readonly string[]
  readonly enabledBy: string
}

type ConnectorName = 'nixl' | 'lmcache' | 'response' | 'mooncake' | 'moriio' | 'sglang' | 'tensorrt'

/** A way to hand the KV cache from a prefill to a decode engine. */
interface Connector {
  readonly name: ConnectorName
  readonly order: 'prefill_first' | 'concurrent'
  /** false: known from sources, and the gateway has no code for it. */
  readonly implemented: boolean
}

/** Something an operator has to know. `firstlight doctor` prints it. */
interface Quirk {
  readonly message: string
  readonly costs: string
  readonly next: string
}

interface EngineGuide {
  readonly cacheReset: CacheReset | null
  readonly kvEvents: KvEventRules | null
  readonly connectors: readonly Connector[]
  /** Setting that reports cached tokens in `usage`. null: always, or never. */
  readonly cachedTokensBy: string | null
  /** What `firstlight doctor` reads and recommends beyond the members above. null: nothing. */
  readonly inspection: Inspection | null
  readonly quirks: readonly Quirk[]
  /** Names in configurations of other products. */
  readonly aliases: readonly string[]
}

const PLAIN_GUIDE = {
  cacheReset: null,
  kvEvents: null,
  connectors: [],
  cachedTokensBy: null,
  inspection: null,
  quirks: [],
  aliases: [],
} as const satisfies EngineGuide

const NO_EVENTS: Quirk = {
  message: 'no KV events and no token ids of prompts',
  costs: 'Cached prefixes are estimated from the prompt’s bytes and corrected by responses.',
  next: 'Set tokenizer of the pool to a vocabulary (firstlight vocab) for exact token counts.',
}

const vllm: EngineGuide = {
  ...PLAIN_GUIDE,
  kvEvents: {
    sources: { path: '/kv_event_sources', read: readVllmSources },
    signedHashes: false,
    deviceMediums: ['GPU'],
    enabledBy: '--kv-events-config',
  },
  cacheReset: {
    call: { path: '/reset_prefix_cache' },
    // `success` is false while running requests hold blocks.
    succeeded: (status, json) => status === 200 && !(isJsonObject(json) && json['success'] === false),
    enabledBy: 'VLLM_SERVER_DEV_MODE=1',
  },
  connectors: [
    { name: 'nixl', order: 'prefill_first', implemented: true },
    { name: 'lmcache', order: 'prefill_first', implemented: true },
    { name: 'response', order: 'prefill_first', implemented: true },
    { name: 'mooncake', order: 'concurrent', implemented: false },
    { name: 'moriio', order: 'prefill_first', implemented: false },
  ],
  cachedTokensBy: '--enable-prompt-tokens-details',
  inspection: vllmInspection,
  aliases: ['vllm', 'hosted_vllm', 'dynamo.vllm'],
}

const sglang: EngineGuide = {
  ...PLAIN_GUIDE,
  kvEvents: {
    // disaggregation/kv_events.py: vLLM's frames and fields.
    sources: { path: '/server_info', read: readSglangSources },
    signedHashes: true,
    // `CPU_PINNED`, `DISK` and `EXTERNAL` are not on the device.
    deviceMediums: ['GPU'],
    enabledBy: '--kv-events-config {"publisher":"zmq"}',
  },
  cacheReset: {
    call: { path: '/flush_cache' },
    // 400 while requests run.
    succeeded: (status) => status === 200,
    enabledBy: null,
  },
  connectors: [{ name: 'sglang', order: 'concurrent', implemented: true }],
  cachedTokensBy: '--enable-cache-report',
  quirks: [
    {
      message: 'no token ids of prompts',
      costs: 'Prompts are measured in bytes.',
      next: 'Set tokenizer of the pool to a vocabulary (firstlight vocab) for exact token counts.',
    },
    {
      message: '/health runs the model and takes 1 to 20 s',
      costs: 'A scheduler that hangs is found within 50 s, or sooner by failed requests.',
      next: 'No change is needed: the gateway asks /ready in between.',
    },
    {
      message: 'any model name is answered',
      costs: 'A wrong name, or an adapter without its base model in front, gets the base model’s answer.',
      next: 'Compare /v1/models with the configuration.',
    },
  ],
  aliases: ['sglang', 'dynamo.sglang'],
}

const tensorrtLlm: EngineGuide = {
  ...PLAIN_GUIDE,
  kvEvents: {
    sources: null,
    signedHashes: true,
    deviceMediums: ['GPU'],
    enabledBy: 'kv_cache_config.kv_events_config, with KV cache manager V2',
  },
  connectors: [
    { name: 'response', order: 'prefill_first', implemented: true },
    { name: 'tensorrt', order: 'prefill_first', implemented: true },
  ],
  quirks: [
    NO_EVENTS,
    {
      message: '/metrics is JSON, and each read removes its records',
      costs: 'Another reader of /metrics loses records while this doctor runs. The gateway reads it once.',
      next: 'Let other readers use /prometheus/metrics.',
    },
  ],
  aliases: ['tensorrt-llm', 'trtllm', 'dynamo.trtllm'],
}

const llamaCpp: EngineGuide = {
  ...PLAIN_GUIDE,
  quirks: [
    NO_EVENTS,
    {
      message: 'each slot has a prefix cache of its own',
      costs: 'Requests beyond the slots (--parallel) wait in the server, and a prompt can meet another slot’s cache.',
      next: 'Set max_in_flight of the engine to total_slots of GET /props.',
    },
    {
      message: 'an error within a stream is not followed by [DONE]',
      costs: 'The gateway reports such a stream as truncated.',
      next: 'No change is needed.',
    },
  ],
  aliases: ['llama.cpp', 'llamafile', 'llamacpp'],
}

const tgi: EngineGuide = {
  ...PLAIN_GUIDE,
  quirks: [
    NO_EVENTS,
    {
      message: '429 beyond --max-concurrent-requests',
      costs: 'The gateway sends the request to another engine, and answers 429 only if all are full.',
      next: 'Set max_in_flight of the engine to that number.',
    },
  ],
  aliases: ['tgi', 'huggingface'],
}

const ollama: EngineGuide = {
  ...PLAIN_GUIDE,
  quirks: [
    NO_EVENTS,
    {
      message: 'no metrics; load from other clients is unknown',
      costs: 'The gateway uses only its own bookings.',
      next: 'Let all clients use the gateway, and set max_in_flight to OLLAMA_NUM_PARALLEL.',
    },
    {
      message: 'a request can load a model',
      costs: 'The first token then takes as long as the load, and another model can be unloaded.',
      next: 'Set OLLAMA_KEEP_ALIVE=-1, and first_byte_ms above the load time.',
    },
  ],
  aliases: ['ollama', 'ollama_chat'],
}

const firstlight: EngineGuide = {
  ...PLAIN_GUIDE,
  aliases: ['firstlight'],
}

const external: EngineGuide = {
  ...PLAIN_GUIDE,
  aliases: ['external', 'openai', 'custom_openai'],
}

const unknown: EngineGuide = {
  ...PLAIN_GUIDE,
  connectors: vllm.connectors.filter(({ implemented }) => implemented),
  // Most servers without a sign of their type are vLLM behind a proxy.
  inspection: vllm.inspection,
}

const GUIDES: Readonly<Record<EngineTypeName, EngineGuide>> = {
  vllm,
  sglang,
  'tensorrt-llm': tensorrtLlm,
  'llama.cpp': llamaCpp,
  tgi,
  ollama,
  firstlight,
  external,
  unknown,
}

export const guideOf = ({ name }: Pick<EngineType, 'name'>): EngineGuide => GUIDES[name]

/** Type by a name in another product's configuration; null: no such type. */
export const engineTypeNamed = (name: string): EngineType | null =>
  ENGINE_TYPES.find((type) => guideOf(type).aliases.includes(name)) ?? null

/** What `firstlight doctor` reads before it knows the type. */
export const INSPECTIONS: readonly Inspection[] = [
  ...new Set(ENGINE_TYPES.flatMap((type) => guideOf(type).inspection ?? [])),
]

/** Routes that list the sockets of KV events. */
export const KV_EVENT_SOURCES = ENGINE_TYPES.flatMap((type) => guideOf(type).kvEvents?.sources ?? [])
