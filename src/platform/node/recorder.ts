import type { RecordConfig } from '../../config.ts'
import { hashText } from '../../core/routing/hash.ts'
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, renameSync, unlinkSync, writeSync } from 'node:fs'
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
 * A disk that fails costs lines, never requests, and leaves no half of one. Throws when the file cannot be opened at all.
 */
export function traceFile(path: string, { maxBytes, files, log }: TraceFileOptions): TraceFile {
  let file = openSync(path, 'a+', 0o600)
  let bytes = withoutTornLine(file)
  let waiting: string[] = []
  let timer: NodeJS.Timeout | null = null
  let dropped = 0

  const rotate = (): void => {
    // The successor first: where it cannot be had, nothing is moved, again and again, until the oldest are gone.
    const fresh = `${path}.new`
    const next = openSync(fresh, 'w', 0o600)
    try {
      for (let older = files - 1; older > 0; older -= 1) moveOver(older === 1 ? path : `${path}.${older - 1}`, `${path}.${older}`)
      renameSync(fresh, path)
    } catch (error) {
      closeSync(next)
      unlinkSync(fresh)
      throw error
    }
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
      bytes += appended(file, text)
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

/** Writes all of `text` or, on a disk that fills up in the middle of it, nothing. Returns its bytes. */
function appended(file: number, text: string): number {
  const bytes = Buffer.from(text)
  const stat = fstatSync(file)
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at)
  } catch (error) {
    if (stat.isFile()) ftruncateSync(file, stat.size)
    throw error
  }
  return bytes.length
}

/** How every line of a recording begins. */
const LINE_START = '{"timestamp":'
/** Lines of very long prompts have a few. */
const MOST_LINE_BYTES = 2 ** 20

/** Takes back the part of a line that a process was killed over, so that no line is glued to it. Returns the size of the file. */
function withoutTornLine(file: number): number {
  const stat = fstatSync(file)
  if (!stat.isFile() || stat.size === 0) return 0
  const from = Math.max(0, stat.size - MOST_LINE_BYTES)
  const tail = Buffer.alloc(stat.size - from)
  readSync(file, tail, 0, tail.length, from)
  const start = tail.lastIndexOf('\n') + 1
  if (start === tail.length) return stat.size
  const torn = tail.toString('latin1', start, start + LINE_START.length)
  // Whatever else the file may hold, it is not ours to take away.
  if (!LINE_START.startsWith(torn) || (start === 0 && from > 0)) return stat.size + writeSync(file, '\n')
  ftruncateSync(file, from + start)
  return from + start
}

function moveOver(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    // There are not that many yet.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
