/** What can be learned from one engine by asking. No judgement here: `checks-*.ts` have that. */
import type { ScrapedEngine } from '../../../origin/metrics-text.ts'
import type { Answer, Asked } from '../ask.ts'
import type { Reach, KeptAlive } from '../reach.ts'
import type { Generated } from './sample.ts'
import * as z from 'zod/mini'

/* `GET /server_info` of vLLM's development mode: the flags it was started with. */

export interface ServerInfo {
  readonly maxQueuedRequests: number | null
  readonly maxQueuedTokens: number | null
  readonly sleepMode: boolean | null
  readonly transfer: { readonly connector: string; readonly role: string | null } | null
  /** Where it publishes KV events; null: it was not started with any. */
  readonly events: EventSource | null
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

/** null: it is not what vLLM says. */
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
          },
  }
}

export interface EngineFacts {
  readonly reach: Reach
  /** Was it asked with a key? */
  readonly keyed: boolean
  readonly health: Answer
  /** As `/version` has it; null: it has none. */
  readonly version: string | null
  readonly models: ModelList
  /** Status of the model list for one who shows no header at all; null: nothing came. */
  readonly stranger: number | null
  /** Not even its health is for those who show no header: a proxy in front lets nobody in. */
  readonly guarded: boolean
  readonly metrics: Metrics
  readonly events: EventSources
  readonly tokens: Tokenized
  readonly switches: Switches
  readonly info: ServerInfo | null
  /** null: no completion was asked for. */
  readonly generated: Generated | null
  readonly idle: KeptAlive | null
}

export interface ModelCard {
  readonly id: string
  /** `--model`, where the id is `--served-model-name`. */
  readonly root: string | null
  /** Set on adapters. */
  readonly parent: string | null
  readonly maxModelLen: number | null
}

export interface ModelList {
  readonly asked: Asked
  /** null: no list of models came. */
  readonly cards: readonly ModelCard[] | null
}

export interface Metrics {
  readonly asked: Asked
  /** null: the text is no vLLM's. */
  readonly scraped: ScrapedEngine | null
  /** Labels of `vllm:cache_config_info`. */
  readonly cacheConfig: ReadonlyMap<string, string>
  /** Has a counter of requests that its admission limits refused, and of how many. */
  readonly rejections: number | null
  /** KV connectors that leave metrics behind. */
  readonly connectors: readonly string[]
}

export interface EventSource {
  readonly rank: string
  readonly enabled: boolean
  readonly endpoint: string
  readonly replayEndpoint: string | null
}

/** null: the engine does not say (before vLLM 0.32). */
export type EventSources = readonly EventSource[] | null

export interface Tokenized {
  readonly asked: Asked
  /** Ids of the sample text; null: it has no `/tokenize`. */
  readonly ids: readonly number[] | null
  /** Asked for the tokens' texts, it gave them. */
  readonly strings: boolean
  /** Ids of the sample chat; null: its template takes no chats, or this one not. */
  readonly chat: readonly number[] | null
}

/** Routes that only some ways to start an engine open. null: the route is not there. */
export interface Switches {
  readonly paused: boolean | null
  readonly sleeping: boolean | null
  /** Adapters can be loaded over HTTP. */
  readonly loadsAdapters: boolean
  /** Its profiler can be started over HTTP. */
  readonly profiles: boolean
  /** It writes down speech and has no chats: a Whisper. */
  readonly onlyHears: boolean
}

/** Dev mode is on: only then these routes exist. */
export const inDevMode = ({ paused, sleeping }: Switches): boolean => paused !== null || sleeping !== null

/** The model a name stands for; null: it is not served. */
export const cardOf = ({ cards }: ModelList, name: string): ModelCard | null =>
  cards?.find(({ id }) => id === name) ?? null

/** The first that is no adapter. */
export const baseCard = ({ cards }: ModelList): ModelCard | null =>
  cards?.find(({ parent }) => parent === null) ?? cards?.[0] ?? null
