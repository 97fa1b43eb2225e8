/** What can be learned from one engine by asking. No judgement here: `checks-*.ts` have that. */
import type { ScrapedEngine } from '../../../../origin/metrics-text.ts'
import type { Answer, Asked } from '../ask.ts'
import type { KeptAlive } from '../keep-alive.ts'
import type { Reach } from '../reach.ts'
import type { Generated } from './generate.ts'
import type { ServerInfo } from './server-info.ts'

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
export const cardOf = ({ cards }: ModelList, name: string): ModelCard | null => cards?.find(({ id }) => id === name) ?? null

/** The first that is no adapter. */
export const baseCard = ({ cards }: ModelList): ModelCard | null => cards?.find(({ parent }) => parent === null) ?? cards?.[0] ?? null
