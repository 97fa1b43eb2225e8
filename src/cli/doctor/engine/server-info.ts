/** `GET /server_info` of vLLM's development mode: the engine's command-line flags. */
import * as z from 'zod/mini'
import type { KvEventSource } from '../../../engines/engine-type.ts'

export interface ServerInfo {
  readonly maxQueuedRequests: number | null
  readonly maxQueuedTokens: number | null
  readonly sleepMode: boolean | null
  readonly transfer: { readonly connector: string; readonly role: string | null } | null
  /** Endpoint of its KV events; null: started without events. */
  readonly events: KvEventSource | null
}

const count = z.nullish(z.number())

const document = z.object({
  vllm_config: z.object({
    scheduler_config: z.nullish(z.object({ max_num_queued_reqs: count, max_num_queued_tokens: count })),
    model_config: z.nullish(z.object({ enable_sleep_mode: z.nullish(z.boolean()) })),
    kv_events_config: z.nullish(
      z.object({
        enable_kv_cache_events: z.nullish(z.boolean()),
        publisher: z.nullish(z.string()),
        endpoint: z.string(),
        replay_endpoint: z.nullish(z.string()),
      }),
    ),
    kv_transfer_config: z.nullish(z.object({ kv_connector: z.nullish(z.string()), kv_role: z.nullish(z.string()) })),
  }),
})

/** Returns null if the answer is not vLLM's. */
export function readServerInfo(json: unknown): ServerInfo | null {
  const read = document.safeParse(json)
  if (!read.success) return null
  const {
    scheduler_config: scheduler,
    model_config: model,
    kv_transfer_config: transfer,
    kv_events_config: events,
  } = read.data.vllm_config
  return {
    maxQueuedRequests: scheduler?.max_num_queued_reqs ?? null,
    maxQueuedTokens: scheduler?.max_num_queued_tokens ?? null,
    sleepMode: model?.enable_sleep_mode ?? null,
    transfer:
      transfer?.kv_connector == null ? null : { connector: transfer.kv_connector, role: transfer.kv_role ?? null },
    events:
      events == null
        ? null
        : {
            rank: '0',
            enabled: events.enable_kv_cache_events === true && events.publisher !== 'null',
            endpoint: events.endpoint,
            replayEndpoint: events.replay_endpoint ?? null,
            topic: null,
          },
  }
}
