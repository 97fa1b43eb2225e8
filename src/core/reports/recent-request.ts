import type { OpenRecord } from './request-record.ts'

/** A request in the history, for `/v1/firstlight/requests/{id}`. */
export interface RecentRequest {
  /** Name the client asked for. */
  readonly model: string
  readonly tenant: string
  readonly record: OpenRecord
}
