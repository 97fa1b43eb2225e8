import type { HurtFields } from '../core/pool/condition/affected-requests.ts'
import type { RequestScope } from './request-scope.ts'

/** What an operator must know, as a webhook gets it. */
export interface Alert {
  /** Event of the log, such as `engine_down`. */
  readonly event: string
  /** null: it is about keys or teams. */
  readonly cluster: string | null
  readonly pool: string | null
  /** Key or `team:NAME` whose budget it is about. Absent: it is about engines. */
  readonly account?: string
  /** null: the whole pool. */
  readonly engine: string | null
  /** Condition now. */
  readonly state: string
  /** Start of the condition, ISO 8601. */
  readonly since: string
  /** Requests that wait there for their first token, and those whose clients left; null: unknown. */
  readonly hurt: HurtFields | null
  /** What the gateway has done. */
  readonly did: string
  /** What the operator should do; null: nothing. */
  readonly next: string | null
}

export interface Alerts {
  /**
   * Sends the alert in the background, if the operator has configured a webhook.
   * @param scope request that found it, whose platform keeps the work alive
   */
  raise(alert: Alert, scope?: Pick<RequestScope, 'background'>): void
}
