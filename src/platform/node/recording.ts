import { randomInt } from 'node:crypto'
import type { RecordConfig } from '../../config.ts'
import { hashText } from '../../core/routing/placement-hash.ts'
import type { Log } from '../../ports/log.ts'
import type { PoolMiddleware } from './ports.ts'
import { withRecording } from './recorded-pool.ts'
import { type TraceFile, traceFile } from './trace-file.ts'
import { UsageError } from './usage-error.ts'

interface ActiveRecording {
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
  #active: ActiveRecording | null

  /** `record` null: off. Throws a UsageError if the file cannot be written. */
  constructor(record: RecordConfig | null, log: Pick<Log, 'warn'>) {
    this.#log = log
    this.#active = this.#open(record)
  }

  readonly middleware: PoolMiddleware = (pool, { blockTokens }) => {
    if (this.#active === null) return pool
    const { file, salt } = this.#active
    return withRecording(pool, { salt, blockTokens, now: () => Date.now(), write: (line) => file.write(line) })
  }

  /**
   * Applies a new configuration. Earlier requests are recorded as before until `keep`. Throws like the constructor,
   * without effect.
   */
  adopt(record: RecordConfig | null): RecordingChange {
    const before = this.#active
    if (JSON.stringify(record) === JSON.stringify(before?.record ?? null))
      return { keep: () => undefined, undo: () => undefined }
    const after = this.#open(record)
    this.#active = after
    const undo = () => {
      after?.file.close()
      this.#active = before
    }
    return { keep: () => before?.file.close(), undo }
  }

  close(): void {
    this.#active?.file.close()
  }

  #open(record: RecordConfig | null): ActiveRecording | null {
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
