import { isJsonObject } from '../core/json.ts'
import { numberIn } from './engine-type.ts'

/** A socket with the KV events of one rank. */
export interface KvEventSource {
  /** Global rank. */
  readonly rank: string
  readonly enabled: boolean
  readonly endpoint: string
  readonly replayEndpoint: string | null
  readonly topic: string | null
}

/** vLLM: sockets by global rank (v1/engine/core.py:1906), from vLLM 0.32 on. */
export function readVllmSources(json: unknown): readonly KvEventSource[] | null {
  if (!isJsonObject(json)) return null
  return Object.entries(json).flatMap(([rank, source]): readonly KvEventSource[] => {
    if (!isJsonObject(source) || typeof source['endpoint'] !== 'string') return []
    const { endpoint, replay_endpoint: replay, topic, publisher, enable_kv_cache_events: enabled } = source
    return [
      {
        rank,
        enabled: enabled === true && publisher !== 'null',
        endpoint,
        replayEndpoint: typeof replay === 'string' ? replay : null,
        topic: typeof topic === 'string' ? topic : null,
      },
    ]
  })
}

/** `kv_events` of SGLang's `/server_info` (runtime_context.py:2072-2145): one socket per rank, on consecutive ports. */
export function readSglangSources(json: unknown): readonly KvEventSource[] | null {
  const events = isJsonObject(json) ? json['kv_events'] : null
  if (!isJsonObject(events)) return null
  const { endpoint_host: host, topic, publisher } = events
  const port = numberIn(events, 'endpoint_port_base')
  const replay = numberIn(events, 'replay_endpoint_port_base')
  if (typeof host !== 'string' || port === null) return null
  return Array.from({ length: Math.max(1, numberIn(events, 'dp_size') ?? 1) }, (_, rank) => ({
    rank: String(rank),
    enabled: publisher === 'zmq',
    endpoint: `tcp://${host}:${port + rank}`,
    replayEndpoint: replay === null ? null : `tcp://${host}:${replay + rank}`,
    topic: typeof topic === 'string' ? topic : null,
  }))
}
