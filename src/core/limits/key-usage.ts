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
  readonly #keys = new Map<string, KeyCounts>()

  /** Adds an ended request. */
  add(key: string, { engine, usage, used }: Pick<RequestRecord, 'engine' | 'usage' | 'used'>): void {
    const name = boundedName(this.#keys, key)
    const added = {
      requests: 1,
      refused: engine === null ? 1 : 0,
      promptTokens: usage?.promptTokens ?? used?.promptTokens ?? 0,
      cachedTokens: usage?.cachedTokens ?? 0,
      outputTokens: used?.outputTokens ?? usage?.completionTokens ?? 0,
    }
    this.#keys.set(name, sum(this.#keys.get(name) ?? NOTHING, added))
  }

  list(): UsageByKey {
    return Object.fromEntries(this.#keys)
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
