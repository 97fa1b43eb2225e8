import { randomUUID } from 'node:crypto'
import type { Config } from '../../../config.ts'
import type { Log } from '../../../ports/log.ts'
import { BatchExporter } from '../../../telemetry/batch-exporter.ts'
import { exportFailureLog } from '../../../telemetry/export-error.ts'
import { logExportBody } from '../../../telemetry/otlp-logs.ts'
import { sendOtlp } from '../../../telemetry/send-otlp.ts'
import { post } from '../../post.ts'
import type { LogTarget } from '../standard-output.ts'
import { steadyNow } from '../steady-clock.ts'

const DELAY_MS = 2_000

/** A log whose lines can be copied. */
export interface CopiedLog extends Pick<Log, 'warn'> {
  copyTo(target: LogTarget | null): void
}

/** Sends the lines of a log to the collector of `log.otlp`. A failure is logged, and that line is not sent. */
export class LogExport implements LogTarget {
  readonly #log: CopiedLog
  readonly #lines: BatchExporter<string>
  #config: Pick<Config, 'log' | 'traces'>
  #isReporting = false

  constructor(log: CopiedLog, config: Pick<Config, 'log' | 'traces'>) {
    this.#log = log
    const report = exportFailureLog(log, 'logs')
    const instance = randomUUID()
    this.#config = config
    this.#lines = new BatchExporter({
      delayMs: DELAY_MS,
      now: steadyNow,
      failed: (failure) => {
        this.#isReporting = true
        report(failure)
        this.#isReporting = false
      },
      send: (lines) => this.#send(lines, instance),
    })
    this.adopt(config)
  }

  /** Applies a configuration. */
  adopt(config: Pick<Config, 'log' | 'traces'>): void {
    this.#config = config
    this.#log.copyTo(config.log.otlp === null ? null : this)
  }

  write(line: string): void {
    if (!this.#isReporting) this.#lines.add(line)
  }

  /** Sends what waits. */
  async end(): Promise<void> {
    await this.#lines.flush()
  }

  async #send(lines: readonly string[], instance: string): Promise<void> {
    const { log, traces } = this.#config
    // Switched off by a reload: the lines are in the log itself.
    if (log.otlp === null) return
    await sendOtlp(post, log.otlp, 'logs', logExportBody(lines, { service: traces.service, instance }))
  }
}
