import type { RecordConfig } from '../../config.ts'
import { hashText } from '../../core/routing/rendezvous.ts'
import { randomInt } from 'node:crypto'
import type { Log } from '../../ports.ts'
import { recorded } from '../../telemetry/recorder.ts'
import { UsageError } from '../../cli/commands/command.ts'
import type { ClusterMiddleware } from './ports.ts'
import { traceFile, type TraceFile } from './trace-file.ts'

interface Running {
  readonly record: RecordConfig
  readonly file: TraceFile
  readonly salt: number
}

/** A change that may fail elsewhere. The caller calls one of the two functions. */
export interface RecordingChange {
  keep(): void
  undo(): void
}

/** Recording of traffic, as configured now. */
export class Recording {
  readonly #log: Pick<Log, 'warn'>
  /** Secret salt, so that a known prompt cannot be recognised in a recording. */
  readonly #ownSalt = randomInt(2 ** 32)
  #running: Running | null

  /** `record` null: off. Throws a UsageError if the file cannot be written. */
  constructor(record: RecordConfig | null, log: Pick<Log, 'warn'>) {
    this.#log = log
    this.#running = this.#begun(record)
  }

  readonly between: ClusterMiddleware = (cluster, { blockTokens }) => {
    if (this.#running === null) return cluster
    const { file, salt } = this.#running
    return recorded(cluster, { salt, blockTokens, now: () => Date.now(), write: (line) => file.write(line) })
  }

  /**
   * Applies a new configuration. Earlier requests are recorded as before until `keep`. Throws like the constructor,
   * without effect.
   */
  adopt(record: RecordConfig | null): RecordingChange {
    const before = this.#running
    if (JSON.stringify(record) === JSON.stringify(before?.record ?? null))
      return { keep: () => undefined, undo: () => undefined }
    const after = this.#begun(record)
    this.#running = after
    const undo = () => {
      after?.file.close()
      this.#running = before
    }
    return { keep: () => before?.file.close(), undo }
  }

  close(): void {
    this.#running?.file.close()
  }

  #begun(record: RecordConfig | null): Running | null {
    if (record === null) return null
    try {
      return {
        record,
        file: traceFile(record.file, { maxBytes: record.maxBytes, files: record.files, log: this.#log }),
        salt: record.salt === null ? this.#ownSalt : hashText(record.salt),
      }
    } catch (error) {
      throw new UsageError(
        `The recording cannot be written to ${record.file}: ${error instanceof Error ? error.message : String(error)}.`,
        'Name a file in a folder that exists and may be written to.',
      )
    }
  }
}
