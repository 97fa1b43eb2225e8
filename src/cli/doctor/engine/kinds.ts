/** Servers other than vLLM: how they are recognised, their flags, and what differs at the gateway (docs/engines.md). */
import { ENGINE_METRICS, type EngineKind } from '../../../origin/engine-metrics.ts'
import type { Findings } from '../finding.ts'

export type ServerKind = EngineKind | 'ollama'

/** Server of a detected kind; null: unknown. */
interface DetectedServer {
  readonly kind: ServerKind | null
}

/** `owned_by` of model lists. */
const OWNERS: Readonly<Record<string, ServerKind>> = {
  vllm: 'vllm',
  sglang: 'sglang',
  llamacpp: 'llama.cpp',
  tensorrt_llm: 'tensorrt-llm',
}

/** Kind of a server by its metrics, else by its model list, else by Ollama’s version route; null: unknown. */
export function serverKind(
  metrics: EngineKind | null,
  owner: string | null,
  hasOllamaVersion: boolean,
): ServerKind | null {
  return metrics ?? OWNERS[owner ?? ''] ?? (hasOllamaVersion ? 'ollama' : null)
}

export const titleOf = (kind: ServerKind): string => ENGINE_METRICS.find((one) => one.kind === kind)?.title ?? 'Ollama'

interface Quirk {
  readonly message: string
  readonly costs: string
  readonly next: string
}

interface Server {
  /** Setting that exports load metrics; null: there is none. */
  readonly metrics: string | null
  /** Setting that reports cached tokens; null: there is none. */
  readonly cachedTokens: string | null
  readonly quirks: readonly Quirk[]
}

const NO_EVENTS: Quirk = {
  message: 'no KV events and no token ids of prompts',
  costs: 'Cached prefixes are estimated from the prompt’s bytes and corrected by responses.',
  next: 'Set tokenizer of the pool to a vocabulary (firstlight vocab) for exact token counts.',
}

const SERVERS: Readonly<Record<Exclude<ServerKind, 'vllm'>, Server>> = {
  sglang: {
    metrics: '--enable-metrics',
    cachedTokens: '--enable-cache-report',
    quirks: [
      NO_EVENTS,
      {
        message: '/health does not run the model',
        costs: 'A scheduler that hangs is detected by failed requests, not by the health check.',
        next: 'No change is needed. /health_generate would run a token for each check.',
      },
    ],
  },
  'tensorrt-llm': {
    metrics: 'return_perf_metrics: true in the file of --config',
    cachedTokens: null,
    quirks: [
      NO_EVENTS,
      {
        message: '/metrics is JSON, and each read removes its records',
        costs: 'Another reader of /metrics loses records while this doctor runs. The gateway reads it once.',
        next: 'Let other readers use /prometheus/metrics.',
      },
    ],
  },
  'llama.cpp': {
    metrics: '--metrics',
    cachedTokens: null,
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
  },
  tgi: {
    metrics: null,
    cachedTokens: null,
    quirks: [
      NO_EVENTS,
      {
        message: '429 beyond --max-concurrent-requests',
        costs: 'The gateway tries another engine first, and then returns the 429.',
        next: 'Set max_in_flight of the engine to that number.',
      },
    ],
  },
  ollama: {
    metrics: null,
    cachedTokens: null,
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
  },
}

const serverOf = ({ kind }: DetectedServer): Server | null => (kind === null || kind === 'vllm' ? null : SERVERS[kind])

/** Setting of the server that exports its load. */
export function metricsNext(facts: DetectedServer): string {
  const server = serverOf(facts)
  if (server === null) return 'vLLM exports them unless started with --disable-log-stats; a proxy may hide the route.'
  if (server.metrics === null) return `${titleOf(facts.kind!)} has no setting for them.`
  return `Start it with ${server.metrics}.`
}

/** Setting of the server that reports cached tokens. */
export function cachedTokensNext(facts: DetectedServer): string {
  const server = serverOf(facts)
  if (server === null) return 'vllm serve … --enable-prompt-tokens-details'
  return server.cachedTokens === null
    ? `${titleOf(facts.kind!)} reports them in newer versions only, or not at all.`
    : `Start it with ${server.cachedTokens}.`
}

export function checkQuirks(facts: DetectedServer, found: Findings): void {
  for (const { message, costs, next } of serverOf(facts)?.quirks ?? []) found.note('quirk', message, { costs, next })
}
