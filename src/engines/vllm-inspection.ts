/** vLLM as `firstlight doctor` reads it. `GET /server_info` of its development mode has the command-line flags. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { numberIn } from './engine-type.ts'
import type { KvEventSource } from './kv-event-source.ts'
import type { Inspection, ServerInfo } from './inspection.ts'

const objectIn = (json: JsonObject, name: string): JsonObject | null => {
  const value = json[name]
  return isJsonObject(value) ? value : null
}

const textIn = (json: JsonObject, name: string): string | null => {
  const value = json[name]
  return typeof value === 'string' ? value : null
}

/** null: the answer is not vLLM's. */
function readServerInfo(json: unknown): ServerInfo | null {
  const config = isJsonObject(json) ? objectIn(json, 'vllm_config') : null
  if (config === null) return null
  const scheduler = objectIn(config, 'scheduler_config') ?? {}
  const sleepMode = (objectIn(config, 'model_config') ?? {})['enable_sleep_mode']
  const transfer = objectIn(config, 'kv_transfer_config') ?? {}
  const connector = textIn(transfer, 'kv_connector')
  return {
    maxQueuedRequests: numberIn(scheduler, 'max_num_queued_reqs'),
    maxQueuedTokens: numberIn(scheduler, 'max_num_queued_tokens'),
    sleepMode: typeof sleepMode === 'boolean' ? sleepMode : null,
    transfer: connector === null ? null : { connector, role: textIn(transfer, 'kv_role') },
    events: eventsIn(objectIn(config, 'kv_events_config')),
  }
}

function eventsIn(events: JsonObject | null): KvEventSource | null {
  const endpoint = events === null ? null : textIn(events, 'endpoint')
  if (events === null || endpoint === null) return null
  return {
    rank: '0',
    enabled: events['enable_kv_cache_events'] === true && events['publisher'] !== 'null',
    endpoint,
    replayEndpoint: textIn(events, 'replay_endpoint'),
    topic: null,
  }
}

export const vllmInspection: Inspection = {
  server: 'vLLM',
  unlike: 'not vLLM: neither /version nor /tokenize',
  metrics: {
    cacheConfig: 'vllm:cache_config_info',
    rejections: 'vllm:admission_rejections_total',
    connectors: [
      ['vllm:nixl_', 'NixlConnector'],
      ['vllm:lmcache_', 'LMCache'],
      ['vllm:mooncake_', 'Mooncake'],
    ],
  },
  info: { path: '/server_info?config_format=json', read: readServerInfo },
  next: {
    load: 'vLLM exports them unless started with --disable-log-stats; a proxy may hide the route.',
    cachedTokens: 'vllm serve … --enable-prompt-tokens-details',
    requestMetrics: 'vllm serve … --enable-per-request-metrics',
    requestIds: 'vllm serve … --enable-request-id-headers',
    kvEvents:
      'vllm serve … --kv-events-config ' +
      `'{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://127.0.0.1:5557",` +
      `"replay_endpoint":"tcp://127.0.0.1:5558"}'`,
    queueLimits: 'vllm serve … --max-num-queued-reqs N (running and waiting), or max_in_flight in the configuration.',
    kvTransfer: (role) =>
      'vllm serve … --kv-transfer-config ' +
      `'{"kv_connector":"NixlConnector","kv_role":"${role === 'prefill' ? 'kv_producer' : 'kv_consumer'}"}'`,
  },
}
