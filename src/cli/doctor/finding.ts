/** What the doctor has to say: one finding a question, marked by how much it matters. */

/**
 * - `ok`: as it should be.
 * - `note`: a feature that is off, or a thing that could not be seen; nothing is wrong.
 * - `warning`: should be changed, but the fleet works.
 * - `problem`: requests fail, go wrong, or strangers get in.
 * - `unreachable`: nothing could be asked.
 */
export type Severity = 'ok' | 'note' | 'warning' | 'problem' | 'unreachable'

export interface Finding {
  /** The question, the same in every report: `prefix_caching`. */
  readonly check: string
  readonly mark: Severity
  readonly says: string
  /** What it costs as it is. */
  readonly costs?: string
  /** The flag, the key or the command that changes it. */
  readonly next?: string
}

/** What is wrong with it, what that costs, and what to do. */
export interface Remedy {
  readonly costs?: string
  readonly next?: string
}

/** One server, or one pool of them, and what was found. */
export interface Subject {
  readonly kind: 'engine' | 'pool' | 'coordinator' | 'controller' | 'lmcache server' | 'gateway' | 'server'
  readonly name: string
  /** null: it is no server. */
  readonly url: string | null
  /** What it says it is: `vLLM 0.32.0`. Empty: it does not say. */
  readonly is: string
  readonly findings: readonly Finding[]
}

/** Collects the findings of one subject. */
export class Findings {
  readonly list: Finding[] = []

  ok(check: string, says: string): void {
    this.add('ok', check, says)
  }

  note(check: string, says: string, remedy?: Remedy): void {
    this.add('note', check, says, remedy)
  }

  warn(check: string, says: string, remedy?: Remedy): void {
    this.add('warning', check, says, remedy)
  }

  problem(check: string, says: string, remedy?: Remedy): void {
    this.add('problem', check, says, remedy)
  }

  add(mark: Severity, check: string, says: string, remedy: Remedy = {}): void {
    this.list.push({ check, mark, says, ...remedy })
  }
}
