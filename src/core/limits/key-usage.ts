import type { Mutable } from '../mutable.ts'
import { boundedName } from '../bounded-name.ts'
import type { RequestRecord } from '../reports/request-record.ts'

/** Counters of one key since the start. */
export interface KeyCounts {
  readonly requests: number
  /** Requests that were refused or that no engine served. */
  readonly refused: number
  readonly promptTokens: number
  /** Prompt tokens that engines found in their caches. */
  readonly cachedTokens: number
  readonly outputTokens: number
}

/** By name of the key. */
export type UsageByKey = Readonly<Record<string, KeyCounts>>

const NOTHING: KeyCounts = { requests: 0, refused: 0, promptTokens: 0, cachedTokens: 0, outputTokens: 0 }

/** Usage per key, for metrics and the admin API. */
export class KeyUsage {
  readonly #keys = new Map<string, Mutable<KeyCounts>>()

  /** Adds an ended request. */
  add(key: string, { engine, usage, used }: Pick<RequestRecord, 'engine' | 'usage' | 'used'>): void {
    const name = boundedName(this.#keys, key)
    let counts = this.#keys.get(name)
    if (counts === undefined) this.#keys.set(name, (counts = { ...NOTHING }))
    counts.requests += 1
    if (engine === null) counts.refused += 1
    counts.promptTokens += usage?.promptTokens ?? used?.promptTokens ?? 0
    counts.cachedTokens += usage?.cachedTokens ?? 0
    counts.outputTokens += used?.outputTokens ?? usage?.completionTokens ?? 0
  }

  list(): UsageByKey {
    return Object.fromEntries(Array.from(this.#keys, ([name, counts]) => [name, { ...counts }]))
  }
}

/** Adds the usage of two gateways. */
export function sumUsage(a: UsageByKey, b: UsageByKey): UsageByKey {
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return Object.fromEntries(Array.from(names, (name) => [name, sum(a[name] ?? NOTHING, b[name] ?? NOTHING)]))
}

const sum = (a: KeyCounts, b: KeyCounts): KeyCounts => ({
  requests: a.requests + b.requests,
  refused: a.refused + b.refused,
  promptTokens: a.promptTokens + b.promptTokens,
  cachedTokens: a.cachedTokens + b.cachedTokens,
  outputTokens: a.outputTokens + b.outputTokens,
})
