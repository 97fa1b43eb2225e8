import type { Incoming } from '../answer.ts'
import type { KvLeg } from '../kv-peer.ts'
import type { Choice } from './job.ts'
import type { Serving } from './serving.ts'
import type { StreamOptions } from './stream-options.ts'

/** A checked and planned request on its way out. */
export interface Reply {
  readonly serving: Serving
  readonly id: string
  /** Seconds since the epoch. */
  readonly created: number
  readonly model: string
  readonly choices: readonly Choice[]
  readonly leg: KvLeg
  /** Prompts in the request; `choices` has as many for each. */
  readonly promptCount: number
  readonly options: StreamOptions
  /** Alternatives wanted for each token; null: no logprobs. */
  readonly logprobs: number | null
}

/** A float as Python prints it. */
const float = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value))

/** ORCA load report on an answer in one piece, for those who ask. */
export function answerHeaders(reply: Reply, incoming: Incoming): Readonly<Record<string, string>> {
  const format = incoming.headers.get('endpoint-load-metrics-format')
  if (format === undefined) return {}
  const { model } = reply.serving.driver
  const named = { num_requests_waiting: model.waiting, kv_cache_usage_perc: model.usage }
  const entries = Object.entries(named)
  const text =
    format.toUpperCase() === 'JSON'
      ? `JSON {"named_metrics": {${entries.map(([key, value]) => `"${key}": ${float(value)}`).join(', ')}}}`
      : `TEXT ${entries.map(([key, value]) => `named_metrics.${key}=${float(value)}`).join(', ')}`
  return { 'endpoint-load-metrics': text }
}
