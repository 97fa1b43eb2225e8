/** Durations and counts per model, cluster and engine, for metrics. They add up over time, replicas and regions. */
import type { RequestRecord } from './request-record.ts'
import { countsUpTo, Sketch } from './sketch.ts'
import type { SketchData } from '../contract/sketch-data.ts'

/** Durations and counts of one engine. Plain data. */
export interface RollupGroup {
  readonly model: string
  /** '': requests without an engine. */
  readonly cluster: string
  readonly engine: string
  /** By stage, ms: the gateway's own (`admit`, `ttft`, …) and those that engines report (`enc_queue`, …). */
  readonly sketches: Readonly<Record<string, SketchData>>
  /** `name` or `name:label`. */
  readonly counts: Readonly<Record<string, number>>
  /** End of its last request, ms since the epoch. Absent in data of older objects. */
  readonly at?: number
}

/** A group in short form: of each sketch only the counts that are shown. */
export interface CountedGroup extends Omit<RollupGroup, 'sketches'> {
  readonly stages: readonly string[]
  /** One row per stage: counts up to each limit, then the sum in ms. */
  readonly rows: Float64Array
}

interface Group {
  readonly model: string
  readonly cluster: string
  readonly engine: string
  readonly sketches: Map<string, Sketch>
  readonly counts: Map<string, number>
  at: number
}

/** Limit of groups; further engines share the name `other`, so that labels stay bounded. */
const MAX_GROUPS = 5_000
const OTHER = 'other'

/** Key of a group. */
export const groupName = ({ model, cluster, engine }: Pick<RollupGroup, 'model' | 'cluster' | 'engine'>): string =>
  JSON.stringify([model, cluster, engine])

/** `limitsMs` are ascending; the last has no end. */
export function countedUpTo({ sketches, ...group }: RollupGroup, limitsMs: readonly number[]): CountedGroup {
  const stages = Object.keys(sketches)
  const rows = stages.flatMap((stage) => [...countsUpTo(sketches[stage]!, limitsMs), sketches[stage]!.sum])
  return { ...group, stages, rows: Float64Array.from(rows) }
}

/** Group of a record, and its time. */
type GroupedRecord = Pick<RequestRecord, 'model' | 'cluster' | 'engine' | 'receivedAt' | 'durationMs'>

export class Rollups {
  readonly #groups = new Map<string, Group>()
  readonly #changed = new Set<string>()

  /** Adds an ended request. */
  record(record: RequestRecord): void {
    const group = this.#groupOf(record)
    count(group, `requests:${record.result}`)
    count(group, `status:${Math.floor(record.status / 100)}xx`)
    for (const failure of record.failedAttempts) count(group, `retries:${failure}`)
    for (const result of record.continuations ?? []) count(group, `continuations:${result}`)
    if (record.hedge !== undefined) count(group, `hedges:${record.hedge}`)
    for (const note of record.notes) count(group, `notes:${note}`)
    const times: Readonly<Record<string, number>> = record.stages
    for (const stage in times) time(group, stage, times[stage]!)
    time(group, 'duration', record.durationMs)
    const { usage, stages, predictedTtftMs } = record
    if (usage !== null) countUsage(group, usage)
    if (predictedTtftMs !== null && stages.ttft !== undefined) {
      time(group, 'predicted_ttft', predictedTtftMs)
      time(group, 'ttft_error', Math.abs(stages.ttft - predictedTtftMs))
    }
    const tokens = (usage?.completionTokens ?? 0) / (record.sequences ?? 1)
    if (stages.ttft !== undefined && tokens > 1)
      time(group, 'output_token', Math.max(0, record.durationMs - stages.ttft) / (tokens - 1))
  }

  /** Adds stages that engines reported for a request. */
  stages(record: GroupedRecord, stages: Readonly<Record<string, number>>): void {
    const group = this.#groupOf(record)
    for (const [stage, ms] of Object.entries(stages)) time(group, stage, ms)
  }

  /** Adds a group under its own name, without a limit: it was limited where it was counted. */
  merge(other: RollupGroup): void {
    const group = this.#open(other)
    group.at = Math.max(group.at, other.at ?? 0)
    for (const [stage, data] of Object.entries(other.sketches)) sketchOf(group, stage).merge(data)
    for (const [name, amount] of Object.entries(other.counts)) count(group, name, amount)
  }

  groups(): RollupGroup[] {
    return [...this.#groups.values()].map(plain)
  }

  /** Returns the groups that changed since the last call, under stable names. */
  takeChanged(): [name: string, group: RollupGroup][] {
    const changed = [...this.#changed].map((name): [string, RollupGroup] => [name, plain(this.#groups.get(name)!)])
    this.#changed.clear()
    return changed
  }

  /** Removes those of the named groups that were idle since `before`. Returns their names. */
  forget(names: readonly string[], before: number): string[] {
    const silent = names.filter((name) => (this.#groups.get(name)?.at ?? before) < before)
    for (const name of silent) {
      this.#groups.delete(name)
      this.#changed.delete(name)
    }
    return silent
  }

  #groupOf({ model, cluster, engine, receivedAt, durationMs }: GroupedRecord): Group {
    const own = { model, cluster: cluster ?? '', engine: engine ?? '' }
    const isFull = this.#groups.size >= MAX_GROUPS && !this.#groups.has(groupName(own))
    const group = this.#open(isFull ? { model: OTHER, cluster: OTHER, engine: OTHER } : own)
    group.at = Math.max(group.at, receivedAt + durationMs)
    return group
  }

  #open({ model, cluster, engine }: Pick<Group, 'model' | 'cluster' | 'engine'>): Group {
    const name = groupName({ model, cluster, engine })
    const group = this.#groups.get(name) ?? { model, cluster, engine, sketches: new Map(), counts: new Map(), at: 0 }
    this.#groups.set(name, group)
    this.#changed.add(name)
    return group
  }
}

function countUsage(
  group: Group,
  { promptTokens, completionTokens, cachedTokens }: NonNullable<RequestRecord['usage']>,
): void {
  count(group, 'prompt_tokens', promptTokens)
  count(group, 'output_tokens', completionTokens)
  if (cachedTokens === null) return
  // Only prompts with a known cached part, so that the two form a ratio.
  count(group, 'cached_tokens', cachedTokens)
  count(group, 'judged_prompt_tokens', promptTokens)
}

function count(group: Group, name: string, amount = 1): void {
  group.counts.set(name, (group.counts.get(name) ?? 0) + amount)
}

function time(group: Group, stage: string, ms: number): void {
  sketchOf(group, stage).add(ms)
}

function sketchOf(group: Group, stage: string): Sketch {
  const known = group.sketches.get(stage)
  if (known !== undefined) return known
  const sketch = new Sketch()
  group.sketches.set(stage, sketch)
  return sketch
}

function plain({ sketches, counts, ...group }: Group): RollupGroup {
  return {
    ...group,
    sketches: Object.fromEntries([...sketches].map(([stage, sketch]) => [stage, sketch.data()])),
    counts: Object.fromEntries(counts),
  }
}
