import type { Ports, RequestScope, Timer, Timers } from '../ports.ts'
import type { Stage, StageTimes } from '../core/contract/contract.ts'

/* Stages of a request before its first token, as measured by the gateway. */

/** In chronological order. */
const ORDER: readonly Stage[] = [
  'edge',
  'tokens',
  'route',
  'lookup',
  'admit',
  'gateway_queue',
  'connect',
  'encode',
  'prefill_leg',
  'transfer',
  'queue',
  'prefill',
  'first_byte',
  'ttft',
]

/** Collects durations in milliseconds. Durations of one stage are added, because retries repeat stages. */
export class StageTimer {
  #times: Partial<Record<Stage, number>>
  /** Snapshot that was handed out; it does not change any more. */
  #taken: StageTimes | null

  constructor(known: StageTimes) {
    this.#times = known
    this.#taken = known
  }

  add(stage: Stage, ms: number): void {
    if (this.#taken !== null) {
      this.#times = { ...this.#taken }
      this.#taken = null
    }
    this.#times[stage] = (this.#times[stage] ?? 0) + Math.max(0, ms)
  }

  addAll(times: StageTimes): void {
    for (const stage of ORDER) if (times[stage] !== undefined) this.add(stage, times[stage])
  }

  snapshot(): StageTimes {
    return (this.#taken ??= this.#times)
  }
}

/** Formats stages as a `Server-Timing` header (W3C Server Timing). */
export function serverTiming(stages: StageTimes): string {
  let text = ''
  for (const stage of ORDER) {
    const ms = stages[stage]
    if (ms !== undefined) text += `${text === '' ? '' : ', '}${stage};dur=${Math.round(ms * 1000) / 1000}`
  }
  return text
}

/** Timers of one request, without a timer per chunk. */

/**
 * Fires after `limitMs` without activity while it runs. Activity only records the time; the single timer checks it
 * when it fires, and waits for the rest.
 */
export class IdleTimer {
  readonly #now: () => number
  readonly #limitMs: number
  readonly #onSilence: () => void
  #timer: ReturnType<typeof setTimeout> | null = null
  #since = 0
  #listening = false
  #stopped = false

  constructor(now: () => number, limitMs: number, onSilence: () => void) {
    this.#now = now
    this.#limitMs = limitMs
    this.#onSilence = onSilence
  }

  /** Starts to measure. */
  listen(): void {
    if (this.#stopped || this.#limitMs <= 0) return
    this.#since = this.#now()
    this.#listening = true
    this.#timer ??= setTimeout(() => this.#wake(), this.#limitMs)
  }

  /** Records activity, or the end of the wait. */
  heard(): void {
    this.#listening = false
  }

  stop(): void {
    this.#stopped = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #wake(): void {
    this.#timer = null
    if (!this.#listening || this.#stopped) return
    const leftMs = this.#limitMs - (this.#now() - this.#since)
    // Clocks that advance only with I/O may lag; one millisecond of tolerance keeps the timer from spinning.
    if (leftMs > 1) this.#timer = setTimeout(() => this.#wake(), leftMs)
    else this.#onSilence()
  }
}

/** Timers of the runtime, for platforms without better ones. */
export const defaultTimers: Timers = {
  set(delayMs, ring) {
    const timer = setTimeout(ring, delayMs)
    return { cancel: () => clearTimeout(timer) }
  },
}

/** Timers of a request: of its scope, of the platform, or of the runtime. */
export const timersOf = (scope: Pick<RequestScope, 'alarms'>, ports: Pick<Ports, 'alarms'>): Timers =>
  scope.alarms ?? ports.alarms ?? defaultTimers

/* Limits of what another process sends. */

/** A timer that fires later than this was held up, ms: this process was stopped or starved. */
const LATE_MS = 100
/** Time to read what has arrived, ms. */
const READ_MS = 20

/**
 * Decides whether a limit has really passed. A process that was stopped finds its timers due before it reads what
 * arrived meanwhile, and would take another process for silent. So the limit is extended by the time for which this
 * process was late, and has passed only if a timer of that time fires in time. All extensions together double it.
 */
export class Patience {
  #leftMs: number
  #isExtended = false

  constructor(limitMs: number) {
    this.#leftMs = limitMs
  }

  /**
   * Time to wait on, ms; 0: the limit has passed.
   * @param lateMs time by which the timer of the limit, or of the last extension, was late
   */
  extensionMs(lateMs: number): number {
    if (this.#isExtended && lateMs < LATE_MS) return 0
    this.#isExtended = true
    const ms = Math.min(Math.max(lateMs, READ_MS), this.#leftMs)
    this.#leftMs -= ms
    return ms
  }
}

/** Timers for limits of what another process sends. */
export function patientTimers(timers: Timers, now: () => number): Timers {
  return {
    set(limitMs, ring) {
      let patience: Patience | null = null
      let timer: Timer
      const wait = (ms: number): void => {
        const dueAt = now() + ms
        timer = timers.set(ms, () => {
          const extensionMs = (patience ??= new Patience(limitMs)).extensionMs(now() - dueAt)
          if (extensionMs > 0) wait(extensionMs)
          else ring()
        })
      }
      wait(limitMs)
      return { cancel: () => timer.cancel() }
    },
  }
}
