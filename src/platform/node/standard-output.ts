/** Output of the log. Its reader may be slow or gone, and its disk full: no request waits or fails because of that. */
import { writeSync } from 'node:fs'
import { logMessage } from '../../ports/log.ts'

export interface LogTarget {
  write(line: string): void
}

/** Bytes of lines that wait for a slow reader. Later lines are dropped. */
const WAITING_BYTES = 2 ** 20

/** Interval of writes to a full pipe, which holds 64 KB. */
const RETRY_MS = 5

/** At exit: longest pause of the reader between two lines, and longest time in all. */
const LAST_PAUSE_MS = 1_000

const LAST_MS = 5_000

let output: StandardOutput | null = null

/** Standard output, shared by all logs of the process. */
export function standardOutput(): LogTarget {
  output ??= new StandardOutput()
  return output
}

/**
 * Writes whole lines in order, without waiting for a reader or a disk. A later line counts the dropped ones. Why not
 * pino.destination: docs/decisions/second-paths.md.
 */
class StandardOutput implements LogTarget {
  #waiting: Uint8Array[] = []
  #bytes = 0
  #dropped = 0
  #retries = false
  /** The failure has been reported. */
  #failing = false

  constructor() {
    process.once('exit', () => this.#end())
  }

  write(line: string): void {
    if (this.#waiting.length > 0) return this.#wait(Buffer.from(line))
    const written = this.#written(line)
    if (written < Buffer.byteLength(line)) this.#wait(Buffer.from(line).subarray(written))
  }

  #wait(line: Uint8Array): void {
    // The rest of a line that has begun is never dropped.
    if (this.#waiting.length > 0 && this.#bytes + line.length > WAITING_BYTES) this.#dropped += 1
    else {
      this.#waiting.push(line)
      this.#bytes += line.length
    }
    this.#retryLater()
  }

  #flush(): void {
    this.#retries = false
    let sent = 0
    for (; sent < this.#waiting.length; sent++) {
      // One line at a time: a pipe takes it whole or not at all, and other threads write to the pipe too.
      const line = this.#waiting[sent]!
      const written = this.#written(line)
      this.#bytes -= written
      this.#waiting[sent] = line.subarray(written)
      if (written < line.length) break
    }
    this.#waiting.splice(0, sent)
    if (this.#waiting.length > 0) return this.#retryLater()
    this.#failing = false
    if (this.#dropped === 0) return
    const lines = this.#dropped
    this.#dropped = 0
    const time = new Date().toISOString()
    const event = 'log_dropped'
    this.write(`${JSON.stringify({ level: 'warn', time, lines, event, message: logMessage(event) })}\n`)
  }

  /** Writes the rest at exit, when no event runs any more. */
  #end(): void {
    const clock = new Int32Array(new SharedArrayBuffer(4))
    const from = performance.now()
    for (let takenAt = from; this.#waiting.length > 0;) {
      const before = this.#bytes
      this.#flush()
      const now = performance.now()
      if (this.#bytes < before) takenAt = now
      if (this.#failing || now - takenAt >= LAST_PAUSE_MS || now - from >= LAST_MS) return
      Atomics.wait(clock, 0, 0, 10)
    }
  }

  #retryLater(): void {
    if (this.#retries) return
    this.#retries = true
    setTimeout(() => this.#flush(), RETRY_MS).unref()
  }

  /** Returns the bytes written; 0: none for now. */
  #written(text: string | Uint8Array): number {
    try {
      return typeof text === 'string' ? writeSync(1, text) : writeSync(1, text)
    } catch (error) {
      const { code = 'unknown error' } = error as NodeJS.ErrnoException
      // A full pipe: the reader is slow.
      if (code !== 'EAGAIN' && !this.#failing) {
        this.#failing = true
        reportFailure(`The log cannot be written (${code}): requests go on without it.\n`)
      }
      return 0
    }
  }
}

function reportFailure(text: string): void {
  try {
    writeSync(2, text)
  } catch {
    // stderr cannot be written either.
  }
}
