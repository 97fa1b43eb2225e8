/** Stages of a request before its first token, as measured by the gateway. */
import type { Stage, StageTimes } from '../core/contract/stages.ts'

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
  #snapshot: StageTimes | null

  constructor(known: StageTimes) {
    this.#times = known
    this.#snapshot = known
  }

  add(stage: Stage, ms: number): void {
    if (this.#snapshot !== null) {
      this.#times = { ...this.#snapshot }
      this.#snapshot = null
    }
    this.#times[stage] = (this.#times[stage] ?? 0) + Math.max(0, ms)
  }

  addAll(times: StageTimes): void {
    for (const stage of ORDER) if (times[stage] !== undefined) this.add(stage, times[stage])
  }

  snapshot(): StageTimes {
    return (this.#snapshot ??= this.#times)
  }
}

/** Formats stages as a `Server-Timing` header (W3C Server Timing). */
export function serverTiming(stages: StageTimes): string {
  let text = ''
  for (const stage of ORDER) {
    const ms = stages[stage]
    if (ms !== undefined) text += `${text === '' ? '' : ', '}${stage};dur=${thousandths(ms)}`
  }
  return text
}

/** Rounds to thousandths. As whole numbers, which V8 prints in a third of the time of others. */
function thousandths(ms: number): string {
  const micros = Math.round(ms * 1000)
  const whole = Math.floor(micros / 1000)
  const rest = micros - 1000 * whole
  if (rest === 0) return `${whole}`
  if (rest % 100 === 0) return `${whole}.${rest / 100}`
  const digits = rest % 10 === 0 ? `${rest / 10}`.padStart(2, '0') : `${rest}`.padStart(3, '0')
  return `${whole}.${digits}`
}
