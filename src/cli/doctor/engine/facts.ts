/** Facts read from one engine. `checks-*.ts` judge them. */
import type { MeasuredLoad } from '../../../engines/engine-registry.ts'
import type { EngineType } from '../../../engines/engine-type.ts'
import type { KvEventSource } from '../../../engines/kv-event-source.ts'
import type { ServerInfo } from '../../../engines/inspection.ts'
import type { ModelCard } from '../../../engines/model-list.ts'
import type { Answer, AskResult } from '../ask.ts'
import type { KeepAliveResult } from '../keep-alive.ts'
import type { Reach } from '../reach.ts'
import type { CompletionResult } from './sample.ts'

export interface EngineFacts {
  readonly reach: Reach
  /** True if a key was sent. */
  readonly keyed: boolean
  readonly health: Answer
  /** Version from `/version`; null: no such route. */
  readonly version: string | null
  readonly type: EngineType
  readonly models: ModelList
  /** Status of the model list without any header; null: no answer. */
  readonly withoutKey: number | null
  /** True if even `/health` rejects requests without headers, as behind an authenticating proxy. */
  readonly guarded: boolean
  readonly metrics: Metrics
  /** KV event sockets. null: the engine does not report them (before vLLM 0.32). */
  readonly events: readonly KvEventSource[] | null
  readonly tokens: TokenizeAnswers
  readonly switches: Switches
  readonly info: ServerInfo | null
  /** null: no completion was requested. */
  readonly generated: CompletionResult | null
  readonly idle: KeepAliveResult | null
}

export interface ModelList {
  readonly result: AskResult
  /** null: no model list was returned. */
  readonly cards: readonly ModelCard[] | null
}

export interface Metrics {
  readonly result: AskResult
  /** null: the text has no load metrics. */
  readonly scraped: MeasuredLoad | null
  /** Labels of the metric with the cache's configuration. */
  readonly cacheConfig: ReadonlyMap<string, string>
  /** Number of requests refused by the engine's admission limits; null: the engine has no such counter. */
  readonly rejections: number | null
  /** KV connectors that appear in the metrics. */
  readonly connectors: readonly string[]
}

export interface TokenizeAnswers {
  readonly result: AskResult
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
  readonly isSpeechOnly: boolean
}

/** True in development mode, which enables these routes. */
export const inDevMode = ({ paused, sleeping }: Switches): boolean => paused !== null || sleeping !== null

/** Finds the model of a name; null: not served. */
export const cardOf = ({ cards }: ModelList, name: string): ModelCard | null =>
  cards?.find(({ id }) => id === name) ?? null

/** Finds the first model that is not an adapter. */
export const baseCard = ({ cards }: ModelList): ModelCard | null =>
  cards?.find(({ parent }) => parent === null) ?? cards?.[0] ?? null

/** A reachable engine of the pool. */
export interface ReachableEngine {
  readonly id: string
  readonly facts: EngineFacts
}
