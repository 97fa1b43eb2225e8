/** End of an exchange that no engine answered. */
import type { OpenRecord } from '../../core/reports/request-record.ts'
import type { Failure } from '../../failure.ts'
import { endExchange, type Exchange } from '../exchange.ts'

/** Fields of the record of a request that no engine answered. */
export const NOT_PLACED: Partial<OpenRecord> = {
  cluster: null,
  engine: null,
  prefillEngine: null,
  placement: null,
  policy: null,
  notes: [],
  predictedTtftMs: null,
}

/** Ends an exchange that was rejected before it was forwarded. */
export function rejectExchange(exchange: Exchange, failure: Failure, now: number): void {
  Object.assign(exchange.record, NOT_PLACED)
  const { status } = failure.shape
  endExchange(exchange, { status, result: 'refused', failedAttempts: [], stages: exchange.stages, usage: null }, now)
}
