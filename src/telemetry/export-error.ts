import type { Log } from '../ports/log.ts'

/** Thrown for a batch that its receiver did not accept. */
export class ExportError extends Error {
  /** Status of the answer. null: no batch was sent. */
  readonly status: number | null
  /** The batch will never succeed, so it is not repeated. */
  readonly isPermanent: boolean

  constructor(message: string, { status, isPermanent }: Pick<ExportError, 'status' | 'isPermanent'>) {
    super(message)
    this.status = status
    this.isPermanent = isPermanent
  }
}

/** Fails with an ExportError for a status of refusal. All except 429 and 5xx are permanent (OTLP/HTTP, "Failures"). */
export function requireAccepted(status: number, receiver: string): void {
  if (status < 300) return
  const isPermanent = status < 500 && status !== 429
  throw new ExportError(`${receiver} returned status ${status}`, { status, isPermanent })
}

/** Logs the failures of an exporter. */
export const exportFailureLog =
  (log: Pick<Log, 'warn'>, exporter: string) =>
  ({ tries, waiting, error }: { readonly tries: number; readonly waiting: number; readonly error: unknown }): void =>
    log.warn('batch_export_failed', { exporter, tries, waiting, error })
