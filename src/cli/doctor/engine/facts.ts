/** Facts read from one engine. `checks-*.ts` judge them. */
import type { ScrapedEngine } from '../../../origin/metrics-text.ts'
import type { Answer, AskResult } from '../ask.ts'
import type { Reach, KeptAlive } from '../reach.ts'
import type { ServerKind } from './kinds.ts'
import type { Generated } from './sample.ts'
import * as z from 'zod/mini'

/* `GET /server_info` of vLLM's development mode: the engine's command-line flags. */

export interface ServerInfo {
  readonly maxQueuedRequests: number | null
  readonly maxQueuedTokens: number | null
  readonly sleepMode: boolean | null
  readonly transfer: { readonly connector: string; readonly role: string | null } | null
  /** Endpoint of its KV events; null: started without events. */
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
          },
  }
}

export interface EngineFacts {
  readonly reach: Reach
  /** True if a key was sent. */
  readonly keyed: boolean
  readonly health: Answer
  /** Version from `/version`; null: no such route. */
  readonly version: string | null
  /** null: an unknown server. */
  readonly kind: ServerKind | null
  readonly models: ModelList
  /** Status of the model list without any header; null: no answer. */
  readonly withoutKey: number | null
  /** True if even `/health` rejects requests without headers, as behind an authenticating proxy. */
  readonly guarded: boolean
  readonly metrics: Metrics
  readonly events: EventSources
  readonly tokens: Tokenized
  readonly switches: Switches
  readonly info: ServerInfo | null
  /** null: no completion was requested. */
  readonly generated: Generated | null
  readonly idle: KeptAlive | null
}

export interface ModelCard {
  readonly id: string
  /** `--model`, if the id is a `--served-model-name`. */
  readonly root: string | null
  /** Set on adapters. */
  readonly parent: string | null
  readonly maxModelLen: number | null
  /** Name of the server software, or of the owner of the model. */
  readonly ownedBy: string | null
}

export interface ModelList {
  readonly asked: AskResult
  /** null: no model list was returned. */
  readonly cards: readonly ModelCard[] | null
}

export interface Metrics {
  readonly asked: AskResult
  /** null: the text has no load metrics. */
  readonly scraped: ScrapedEngine | null
  /** Labels of `vllm:cache_config_info`. */
  readonly cacheConfig: ReadonlyMap<string, string>
  /** Number of requests refused by the engine's admission limits; null: the engine has no such counter. */
  readonly rejections: number | null
  /** KV connectors that appear in the metrics. */
  readonly connectors: readonly string[]
}

export interface EventSource {
  readonly rank: string
  readonly enabled: boolean
  readonly endpoint: string
  readonly replayEndpoint: string | null
}

/** null: the engine does not report it (before vLLM 0.32). */
export type EventSources = readonly EventSource[] | null

export interface Tokenized {
  readonly asked: AskResult
  /** Token ids of the sample text; null: no `/tokenize`. */
  readonly ids: readonly number[] | null
  /** True if `/tokenize` returned the tokens' texts on request. */
  readonly strings: boolean
  /** Token ids of the sample chat; null: the chat template rejects it. */
  readonly chat: readonly number[] | null
}

/** Routes that exist only with certain flags. null: the route does not exist. */
export interface Switches {
  readonly paused: boolean | null
  readonly sleeping: boolean | null
  /** Adapters can be loaded over HTTP. */
  readonly loadsAdapters: boolean
  /** The profiler can be started over HTTP. */
  readonly profiles: boolean
  /** A speech-to-text model without chat, such as Whisper. */
  readonly onlyHears: boolean
}

/** True in development mode, which enables these routes. */
export const inDevMode = ({ paused, sleeping }: Switches): boolean => paused !== null || sleeping !== null

/** Finds the model of a name; null: not served. */
export const cardOf = ({ cards }: ModelList, name: string): ModelCard | null =>
  cards?.find(({ id }) => id === name) ?? null

/** Finds the first model that is not an adapter. */
export const baseCard = ({ cards }: ModelList): ModelCard | null =>
  cards?.find(({ parent }) => parent === null) ?? cards?.[0] ?? null
