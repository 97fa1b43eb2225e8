import type { RecordConfig } from '../../config.ts'
import { hashText } from '../../core/routing/hash.ts'
import { closeSync, openSync, renameSync, statSync, writeSync } from 'node:fs'
import { randomInt } from 'node:crypto'
import type { Log } from '../../ports.ts'
import { recorded } from '../../telemetry/recorder.ts'
import { UsageError } from './commands/command.ts'
import type { Between } from './ports.ts'

/** Lines are written together: a request must not wait for the disk. */
const FLUSH_MS = 500
const MOST_WAITING = 10_000

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

export interface TraceFile {
  write(line: string): void
  close(): void
}

export interface TraceFileOptions {
  readonly maxBytes: number
  readonly files: number
  readonly log: Pick<Log, 'warn'>
}

/**
 * Lines for one file and, once it is full, for its successors: `x`, then `x.1` the one before, `files` in all.
 * A disk that fails costs lines, never requests. Throws when the file cannot be opened at all.
 */
export function traceFile(path: string, { maxBytes, files, log }: TraceFileOptions): TraceFile {
  let file = openSync(path, 'a', 0o600)
  let bytes = statSync(path).size
  let waiting: string[] = []
  let timer: NodeJS.Timeout | null = null
  let dropped = 0

  const rotate = (): void => {
    for (let older = files - 1; older > 0; older -= 1) moveOver(older === 1 ? path : `${path}.${older - 1}`, `${path}.${older}`)
    const next = openSync(path, 'w', 0o600)
    // Only now: the number of a closed file is soon that of somebody's socket.
    closeSync(file)
    file = next
    bytes = 0
  }
  const flush = (): void => {
    timer = null
    if (waiting.length === 0) return
    const text = `${waiting.join('\n')}\n`
    waiting = []
    try {
      if (bytes > 0 && bytes + text.length > maxBytes) rotate()
      bytes += writeSync(file, text)
    } catch (error) {
      log.warn('recording_failed', { error: error instanceof Error ? error.message : String(error) })
    }
    if (dropped > 0) log.warn('recording_dropped', { lines: dropped })
    dropped = 0
  }
  return {
    write(line) {
      if (waiting.length >= MOST_WAITING) dropped += 1
      else waiting.push(line)
      timer ??= setTimeout(flush, FLUSH_MS).unref()
    },
    close() {
      if (timer !== null) clearTimeout(timer)
      flush()
      closeSync(file)
    },
  }
}

function moveOver(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    // There are not that many yet.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
