/** Output of the log. Its reader may be slow or gone, and its disk full: no request waits or fails because of that. */
import { writeSync } from 'node:fs'
import { logMessage } from '../../ports/log.ts'
import { LineBuffer, type WriteResult } from './line-buffer.ts'

export interface LogTarget {
  write(line: string): void
  /** Writes the lines that wait for others. Absent: none wait. */
  flush?(): void
}

/** Longest wait of a line for others. A system call per line would cost more than the line itself. */
const GATHER_MS = 20

/** Bytes that are written at once: half of what a pipe holds. */
const GATHER_BYTES = 2 ** 15

/** Interval of writes to a full pipe, which holds 64 KB. */
const RETRY_MS = 5

/** At exit: longest pause of the reader between two lines, and longest time in all. */
const LAST_PAUSE_MS = 1_000

const LAST_MS = 5_000

let output: StandardOutput | null = null

/** Standard output, shared by all logs of the process. */
export function standardOutput(): LogTarget {
  return mainOutput()
}

/** Creates the lines of an I/O thread. The main thread writes at exit what the thread has not written. */
export function threadLines(): LineBuffer {
  const lines = new LineBuffer()
  mainOutput().threads.push(lines)
  return lines
}

/** Standard output in an I/O thread. */
export const threadOutput = (memory: SharedArrayBuffer): LogTarget => new StandardOutput(new LineBuffer(memory))

function mainOutput(): StandardOutput {
  if (output === null) {
    const created = new StandardOutput(new LineBuffer())
    process.once('exit', () => created.end())
    output = created
  }
  return output
}

/**
 * Writes whole lines in order, without waiting for a reader or a disk. A later line counts the dropped ones. Why not
 * that of pino: docs/decisions/second-paths.md.
 */
class StandardOutput implements LogTarget {
  /** Lines of I/O threads. */
  readonly threads: LineBuffer[] = []
  readonly #lines: LineBuffer
  #dropped = 0
  /** A timer runs. */
  #waits = false
  /** The reader is slow, or the disk is full: a timer tries again. */
  #blocked = false
  /** The failure has been reported. */
  #failing = false
  /** The process exits: no timer runs any more. */
  #ending = false

  constructor(lines: LineBuffer) {
    this.#lines = lines
  }

  write(line: string): void {
    if (!this.#lines.add(line)) this.#dropped += 1
    if (this.#blocked) return
    if (this.#lines.bytes >= GATHER_BYTES || this.#ending) this.#write()
    else this.#writeAfter(GATHER_MS)
  }

  flush(): void {
    if (!this.#blocked) this.#write()
  }

  /** Writes the rest at exit, when no event runs any more. */
  end(): void {
    this.#ending = true
    const all = [...this.threads, this.#lines]
    const waiting = (): number => all.reduce((sum, { bytes }) => sum + bytes, 0)
    for (const lines of all) lines.seize()
    const clock = new Int32Array(new SharedArrayBuffer(4))
    const from = performance.now()
    for (let takenAt = from; ;) {
      const before = waiting()
      for (const lines of all) this.#note(lines.write())
      if (this.#dropped > 0 && !this.#blocked) this.#countDropped()
      const now = performance.now()
      if (waiting() < before) takenAt = now
      if (waiting() === 0 || this.#failing || now - takenAt >= LAST_PAUSE_MS || now - from >= LAST_MS) return
      Atomics.wait(clock, 0, 0, 10)
    }
  }

  #write(): void {
    this.#note(this.#lines.write())
    if (this.#blocked) this.#writeAfter(RETRY_MS)
    else if (this.#dropped > 0) this.#countDropped()
  }

  #note(result: WriteResult): void {
    this.#blocked = result !== 'written'
    if (result === 'written') this.#failing = false
    else if (result !== 'full' && !this.#failing) {
      this.#failing = true
      reportFailure(`The log cannot be written (${result}). Requests continue without it.\n`)
    }
  }

  #countDropped(): void {
    const lines = this.#dropped
    this.#dropped = 0
    const time = new Date().toISOString()
    const event = 'log_dropped'
    this.write(`${JSON.stringify({ level: 'warn', time, lines, event, message: logMessage(event) })}\n`)
  }

  #writeAfter(ms: number): void {
    if (this.#waits) return
    this.#waits = true
    setTimeout(() => {
      this.#waits = false
      this.#write()
    }, ms).unref()
  }
}

function reportFailure(text: string): void {
  try {
    writeSync(2, text)
  } catch {
    // stderr cannot be written either.
  }
}
