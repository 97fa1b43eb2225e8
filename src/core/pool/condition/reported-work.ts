/** What an engine reports of its own progress: counters of its metrics that grow, or stand still while requests run. */
import type { EngineStats } from '../../contract/engine-signal.ts'

/** Age from which the last report is no evidence, ms. A silent engine is asked at least once a second. */
const VALID_MS = 2_000

/** Time for which counters must stand still, ms: several steps, with a part of a long prompt in each. */
const STILL_MS = 1_000

/**
 * Silence after which counters that grow excuse an engine no longer, ms: its requests may never arrive although it
 * works on them.
 */
const EXCUSED_MS = 10_000

/** A report with what else is known at its time. */
interface WorkReport {
  readonly stats: Pick<EngineStats, 'running' | 'work'>
  /** The engine has requests of other sources. */
  readonly hasOthers: boolean
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** A silence towards the gateway. Times are ms since the epoch. */
interface Silence {
  readonly since: number
  /** A long prefill of the gateway waits at the engine. */
  readonly hasLongPrefill: boolean
  readonly now: number
}

/**
 * Progress of one engine by its own counters. Growth excuses silence towards the gateway for two reasons: work of other
 * sources, and a long prefill without any output meanwhile. Other output without work of other sources does not excuse:
 * it is the gateway's own, and does not arrive. Restarts and missing reports are no evidence.
 */
export class ReportedWork {
  #last: WorkReport | null = null
  /** Last report of work while the engine had requests of other sources. */
  #othersAt = -Infinity
  /** Last report of work that was prefill alone. */
  #prefillAt = -Infinity
  /** First of the reports since which live counters stand still while requests run; null: they do not. */
  #stillFrom: number | null = null

  observe(report: WorkReport): void {
    const last = this.#last
    const { work, running } = report.stats
    if (work === undefined) return this.forget()
    this.#last = report
    const before = last?.stats.work
    const hasBegun = before === undefined || work.total < before.total
    const isStill = !hasBegun && running > 0 && !report.hasOthers && work.live !== null && work.live === before.live
    if (!isStill) this.#stillFrom = running > 0 && !report.hasOthers && work.live !== null ? report.at : null
    if (hasBegun || work.total === before.total) return
    if (report.hasOthers) this.#othersAt = report.at
    if (isPrefill(before, work)) this.#prefillAt = report.at
  }

  /** The metrics could not be read, or the engine may be another one now. */
  forget(): void {
    this.#last = null
    this.#othersAt = -Infinity
    this.#prefillAt = -Infinity
    this.#stillFrom = null
  }

  /** Whether the engine works although it is silent. */
  isAtWork({ since, hasLongPrefill, now }: Silence): boolean {
    const workedAt = hasLongPrefill ? Math.max(this.#othersAt, this.#prefillAt) : this.#othersAt
    return now - since < EXCUSED_MS && workedAt >= since && now - workedAt <= VALID_MS
  }

  /** Whether the engine has requests and does nothing. */
  isStill(now: number): boolean {
    const at = this.#last?.at ?? -Infinity
    return this.#stillFrom !== null && now - at <= VALID_MS && at - this.#stillFrom >= STILL_MS
  }
}

type Work = NonNullable<EngineStats['work']>

/** Whether all that was done is prefill. */
function isPrefill(before: Work, after: Work): boolean {
  return (
    before.prefill !== null && after.prefill !== null && after.prefill - before.prefill >= after.total - before.total
  )
}
