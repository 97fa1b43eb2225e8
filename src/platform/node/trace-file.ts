/** File of a recording, with rotation. */
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import type { Log } from '../../ports/log.ts'

/** Lines are written in batches, so that no request waits for the disk. */
const FLUSH_MS = 500

const MAX_WAITING = 10_000

/** A rotation takes milliseconds. A lock older than this belongs to a killed process. */
const STALE_MS = 10_000

export interface TraceFile {
  /** No effect after close: requests that began before may end later. */
  write(line: string): void
  close(): void
}

interface TraceFileOptions {
  readonly maxBytes: number
  readonly files: number
  readonly log: Pick<Log, 'warn'>
}

/**
 * Writes lines to a file with rotation: `x`, then `x.1`, and so on, `files` in all. Several processes may write to the
 * same file, for example a gateway and its successor during a drain. Disk errors lose lines, never requests, and leave
 * no partial lines. Throws if the file cannot be opened.
 */
export function traceFile(path: string, { maxBytes, files, log }: TraceFileOptions): TraceFile {
  const file = new SharedFile(path, maxBytes, files)
  let waiting: string[] = []
  let timer: NodeJS.Timeout | null = null
  let dropped = 0
  let closed = false

  const flush = (): void => {
    timer = null
    if (waiting.length === 0) return
    const text = Buffer.from(`${waiting.join('\n')}\n`)
    waiting = []
    try {
      file.append(text)
    } catch (error) {
      log.warn('recording_failed', { error: error instanceof Error ? error.message : String(error) })
    }
    if (dropped > 0) log.warn('recording_dropped', { lines: dropped })
    dropped = 0
  }
  return {
    write(line) {
      if (closed) return
      if (waiting.length >= MAX_WAITING) dropped += 1
      else waiting.push(line)
      timer ??= setTimeout(flush, FLUSH_MS).unref()
    },
    close() {
      if (closed) return
      closed = true
      if (timer !== null) clearTimeout(timer)
      flush()
      file.close()
    },
  }
}

/** The file that has the name now, whoever created it. */
class SharedFile {
  readonly #path: string
  readonly #maxBytes: number
  readonly #files: number
  #file: number

  constructor(path: string, maxBytes: number, files: number) {
    this.#path = path
    this.#maxBytes = maxBytes
    this.#files = files
    this.#file = openSync(path, 'a+', 0o600)
    repairPartialLine(this.#file)
  }

  append(text: Uint8Array): void {
    this.#follow()
    const { size } = fstatSync(this.#file)
    if (size > 0 && size + text.length > this.#maxBytes) this.#rotate()
    appendWhole(this.#file, text)
  }

  close(): void {
    closeSync(this.#file)
  }

  /** Reopens the file if another process or an operator has moved or deleted it. */
  #follow(): void {
    if (fstatSync(this.#file).isFile() && !this.#isCurrent()) this.#reopen()
  }

  #isCurrent(): boolean {
    const there = statSync(this.#path, { throwIfNoEntry: false })
    const own = fstatSync(this.#file)
    return there?.ino === own.ino && there.dev === own.dev
  }

  #reopen(): void {
    const next = openSync(this.#path, 'a+', 0o600)
    // Only now, because the descriptor number may be reused at once.
    closeSync(this.#file)
    this.#file = next
  }

  #rotate(): void {
    if (!this.#lock()) return
    try {
      // Another process may have rotated just now.
      if (this.#isCurrent()) {
        for (let older = this.#files - 1; older > 0; older -= 1)
          moveOver(older === 1 ? this.#path : `${this.#path}.${older - 1}`, `${this.#path}.${older}`)
        if (this.#files === 1) unlinkSync(this.#path)
      }
      this.#reopen()
    } finally {
      unlinkSync(this.#lockPath)
    }
  }

  /**
   * Takes the rotation lock: only one process renames at a time. If no new file can be created, nothing is renamed.
   * Returns false if another process has the lock.
   */
  #lock(): boolean {
    try {
      closeSync(openSync(this.#lockPath, 'wx', 0o600))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      const since = statSync(this.#lockPath, { throwIfNoEntry: false })?.mtimeMs
      if (since !== undefined && Date.now() - since > STALE_MS) unlinkSync(this.#lockPath)
      return false
    }
  }

  get #lockPath(): string {
    return `${this.#path}.lock`
  }
}

/** Appends all of `text`, or nothing if the disk fills up in the middle. */
function appendWhole(file: number, text: Uint8Array): void {
  const before = fstatSync(file)
  let at = 0
  try {
    while (at < text.length) at += writeSync(file, text, at)
  } catch (error) {
    // If others wrote too, the partial line cannot be identified.
    if (before.isFile() && fstatSync(file).size === before.size + at) ftruncateSync(file, before.size)
    throw error
  }
}

/** Start of every line of a recording. */
const LINE_START = '{"timestamp":'

/** Lines of very long prompts have several MB at most. */
const MAX_LINE_BYTES = 2 ** 20

/** Removes the partial line of a killed process, so that no other line is appended to it. */
function repairPartialLine(file: number): void {
  const stat = fstatSync(file)
  if (!stat.isFile() || stat.size === 0) return
  const from = Math.max(0, stat.size - MAX_LINE_BYTES)
  const tail = Buffer.alloc(stat.size - from)
  readSync(file, tail, 0, tail.length, from)
  const start = tail.lastIndexOf('\n') + 1
  // The file grows: another process is writing the line.
  if (start === tail.length || fstatSync(file).size !== stat.size) return
  const partial = tail.toString('latin1', start, start + LINE_START.length)
  // Foreign content is kept.
  if (!LINE_START.startsWith(partial) || (start === 0 && from > 0)) writeSync(file, '\n')
  else ftruncateSync(file, from + start)
}

function moveOver(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    // There are fewer files yet.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
