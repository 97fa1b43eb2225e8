import type { RecordConfig } from '../../config.ts'
import { hashText } from '../../core/routing/hash.ts'
import { randomInt } from 'node:crypto'
import type { Log } from '../../ports.ts'
import { recorded } from '../../telemetry/recorder.ts'
import { UsageError } from './commands/command.ts'
import type { Between } from './ports.ts'
import { traceFile, type TraceFile } from './trace-file.ts'

/** Recording as configured; null: not asked for. Throws a UsageError when the file cannot be written. */
export function recordingTo(record: RecordConfig | null, log: Pick<Log, 'warn'>): { readonly between: Between; close(): void } | null {
  if (record === null) return null
  let file: TraceFile
  try {
    file = traceFile(record.file, { maxBytes: record.maxBytes, files: record.files, log })
  } catch (error) {
    throw new UsageError(`The recording cannot be written to ${record.file}: ${error instanceof Error ? error.message : String(error)}.`, 'Name a file in a folder that exists and may be written to.')
  }
  // Secret, so that nobody can look a known prompt up in a recording.
  const salt = record.salt === null ? randomInt(2 ** 32) : hashText(record.salt)
  const write = (line: string): void => file.write(line)
  return {
    between: (cluster, { blockTokens }) => recorded(cluster, { salt, blockTokens, now: () => Date.now(), write }),
    close: () => file.close(),
  }
}
