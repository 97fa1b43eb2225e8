/** The file of a recording: lines, and older files once it is full. */
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
import type { Log } from '../../ports.ts'

/** Lines are written together: a request must not wait for the disk. */
const FLUSH_MS = 500
const MOST_WAITING = 10_000
/** Files change places in milliseconds: whoever began this long ago was killed over it. */
const STALE_MS = 10_000

export interface TraceFile {
  /** Without effect once it is closed: requests that began before may end after. */
  write(line: string): void
  close(): void
}

export interface TraceFileOptions {
  readonly maxBytes: number
  readonly files: number
  readonly log: Pick<Log, 'warn'>
}

/**
 * Lines for one file and, once it is full, for its successors: `x`, then `x.1` the one before, `files` in all. Several
 * processes may write to the same one, as a gateway and its successor do while the older one drains. A disk that fails
 * costs lines, never requests, and leaves no half of one. Throws when the file cannot be opened at all.
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
      if (waiting.length >= MOST_WAITING) dropped += 1
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

/** What stands under the name now, whoever put it there. */
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
    mendTornLine(this.#file)
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

  /** Another process, or an operator, may have put the file aside or taken it away. */
  #follow(): void {
    if (fstatSync(this.#file).isFile() && !this.#stands()) this.#reopen()
  }

  #stands(): boolean {
    const there = statSync(this.#path, { throwIfNoEntry: false })
    const own = fstatSync(this.#file)
    return there?.ino === own.ino && there.dev === own.dev
  }

  #reopen(): void {
    const next = openSync(this.#path, 'a+', 0o600)
    // Only now: the number of a closed file is soon that of somebody's socket.
    closeSync(this.#file)
    this.#file = next
  }

  #rotate(): void {
    if (!this.#lock()) return
    try {
      // Somebody else may have just done it.
      if (this.#stands()) {
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
   * Only one process moves the files at a time. Where no new file can be had, nothing is moved, again and again, until
   * the oldest are gone. false: another one is at it.
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

/** Writes all of `text` or, on a disk that fills up in the middle of it, nothing. */
function appendWhole(file: number, text: Uint8Array): void {
  const before = fstatSync(file)
  let at = 0
  try {
    while (at < text.length) at += writeSync(file, text, at)
  } catch (error) {
    // Where others wrote too, nobody can tell what is whose.
    if (before.isFile() && fstatSync(file).size === before.size + at) ftruncateSync(file, before.size)
    throw error
  }
}

/** How every line of a recording begins. */
const LINE_START = '{"timestamp":'
/** Lines of very long prompts have a few. */
const MOST_LINE_BYTES = 2 ** 20

/** Takes back the part of a line that a process was killed over, so that no line is glued to it. */
function mendTornLine(file: number): void {
  const stat = fstatSync(file)
  if (!stat.isFile() || stat.size === 0) return
  const from = Math.max(0, stat.size - MOST_LINE_BYTES)
  const tail = Buffer.alloc(stat.size - from)
  readSync(file, tail, 0, tail.length, from)
  const start = tail.lastIndexOf('\n') + 1
  // It grows: another process is in the middle of the line.
  if (start === tail.length || fstatSync(file).size !== stat.size) return
  const torn = tail.toString('latin1', start, start + LINE_START.length)
  // Whatever else the file may hold, it is not ours to take away.
  if (!LINE_START.startsWith(torn) || (start === 0 && from > 0)) writeSync(file, '\n')
  else ftruncateSync(file, from + start)
}

function moveOver(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (error) {
    // There are not that many yet.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
