/** KV event sockets that an engine reports (`GET /kv_event_sources`). */
import * as z from 'zod/mini'
import { type AskResult, jsonOf } from '../ask.ts'

export interface EventSource {
  readonly rank: string
  readonly enabled: boolean
  readonly endpoint: string
  readonly replayEndpoint: string | null
}

/** null: the engine does not report it (before vLLM 0.32). */
export type EventSources = readonly EventSource[] | null

const eventSources = z.record(
  z.string(),
  z.object({
    enable_kv_cache_events: z.boolean(),
    publisher: z.nullish(z.string()),
    endpoint: z.string(),
    replay_endpoint: z.nullish(z.string()),
  }),
)

export function readEvents(asked: AskResult): EventSources {
  const read = eventSources.safeParse(jsonOf(asked))
  if (!read.success) return null
  return Object.entries(read.data).map(([rank, source]) => ({
    rank,
    enabled: source.enable_kv_cache_events && source.publisher !== 'null',
    endpoint: source.endpoint,
    replayEndpoint: source.replay_endpoint ?? null,
  }))
}
