/** Findings of the doctor: one per question, with a severity. */

/**
 * - `ok`: as it should be.
 * - `note`: a feature is off, or something could not be observed; nothing is wrong.
 * - `warning`: should be changed, but the fleet works.
 * - `problem`: requests fail or are misrouted, or an endpoint is open to strangers.
 * - `unreachable`: no answer.
 */
export type Severity = 'ok' | 'note' | 'warning' | 'problem' | 'unreachable'

export interface Finding {
  /** Identifier of the question, equal in all reports: `prefix_caching`. */
  readonly check: string
  readonly mark: Severity
  readonly message: string
  /** Consequence of the present state. */
  readonly costs?: string
  /** The flag, key or command that changes it. */
  readonly next?: string
}

/** What is wrong, its consequence, and the next step. */
export interface Remedy {
  readonly costs?: string
  readonly next?: string
}

/** One server or pool, with its findings. */
export interface Subject {
  readonly kind: 'engine' | 'pool' | 'coordinator' | 'controller' | 'lmcache server' | 'gateway' | 'server'
  readonly name: string
  /** null: not a server. */
  readonly url: string | null
  /** Product and version as reported: `vLLM 0.32.0`. Empty: not reported. */
  readonly is: string
  readonly findings: readonly Finding[]
}

/** Collects the findings of one subject. */
export class Findings {
  readonly list: Finding[] = []

  ok(check: string, message: string): void {
    this.add('ok', check, message)
  }

  note(check: string, message: string, remedy?: Remedy): void {
    this.add('note', check, message, remedy)
  }

  warn(check: string, message: string, remedy?: Remedy): void {
    this.add('warning', check, message, remedy)
  }

  problem(check: string, message: string, remedy?: Remedy): void {
    this.add('problem', check, message, remedy)
  }

  add(mark: Severity, check: string, message: string, remedy: Remedy = {}): void {
    this.list.push({ check, mark, message: message, ...remedy })
  }
}
