/** Structured logs by pino: one JSON line an event. */
import { createRequire } from 'node:module'
import pino from 'pino'
import type { LogConfig } from '../../config.ts'
import { type Log, messageOf, OriginError } from '../../ports.ts'
import { writeSync } from 'node:fs'

/* Where the log goes: nobody may read it, and its disk may be full. No request waits or fails for that. */

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
    let gone = 0
    for (; gone < this.#waiting.length; gone++) {
      // One line at a time: a pipe takes it whole or not at all, and other threads write to the pipe too.
      const line = this.#waiting[gone]!
      const written = this.#written(line)
      this.#bytes -= written
      this.#waiting[gone] = line.subarray(written)
      if (written < line.length) break
    }
    this.#waiting.splice(0, gone)
    if (this.#waiting.length > 0) return this.#retryLater()
    this.#failing = false
    if (this.#dropped === 0) return
    const lines = this.#dropped
    this.#dropped = 0
    const time = new Date().toISOString()
    const event = 'log_dropped'
    this.write(`${JSON.stringify({ level: 'warn', time, lines, event, message: messageOf(event) })}\n`)
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
        report(`The log cannot be written (${code}): requests go on without it.\n`)
      }
      return 0
    }
  }
}

function report(text: string): void {
  try {
    writeSync(2, text)
  } catch {
    // stderr cannot be written either.
  }
}

type Fields = Readonly<Record<string, unknown>>

export interface NodeLog extends Log {
  setLevel(level: LogConfig['level']): void
}

/** Opens a log on stdout or `target`. `base`: fields of every line. */
export function openLog(
  level: LogConfig['level'],
  target?: LogTarget,
  base: Fields | null = null,
  format: LogConfig['format'] = 'auto',
): NodeLog {
  const isText = format === 'text' || (format === 'auto' && target === undefined && process.stdout.isTTY)
  const destination = target ?? standardOutput()
  const logger = pino(
    {
      level,
      base,
      messageKey: 'message',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    isText ? textTarget(destination) : destination,
  )
  // Most events of a busy gateway are below the level: they must cost nothing.
  const at =
    (name: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: Fields = {}): void => {
      if (logger.isLevelEnabled(name)) logger[name](printable(fields, event), messageOf(event))
    }
  const setLevel = (next: LogConfig['level']): void => {
    logger.level = next
  }
  return {
    writes: (name) => logger.isLevelEnabled(name),
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    setLevel,
  }
}

/** Formats lines for people. The library is loaded only here, because most gateways log JSON. */
function textTarget(target: LogTarget): LogTarget {
  const { prettyFactory } = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty')
  const format = prettyFactory({
    colorize: process.stdout.isTTY && (process.env['NO_COLOR'] ?? '') === '',
    messageKey: 'event',
    ignore: 'message',
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  })
  return { write: (line) => target.write(format(JSON.parse(line))) }
}

/** Fields that are never logged: credentials and texts of users. */
const never: ReadonlySet<string> = new Set([
  'authorization',
  'body',
  'cookie',
  'headers',
  'key',
  'messages',
  'prompt',
  'secret',
  'token',
])

function printable(fields: Fields, event: string): Fields {
  const shown: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (!never.has(name)) shown[name] = value instanceof Error ? describe(value) : value
  }
  shown['event'] = event
  return shown
}

/** Describes an error with its causes and the stack of the innermost, except for network errors. */
function describe(error: Error): Fields {
  const messages: string[] = []
  let innermost = error
  let isNetwork = false
  for (let at: unknown = error; at instanceof Error && messages.length < 5; at = at.cause) {
    messages.push(`${at.name}: ${at.message}`)
    innermost = at
    isNetwork ||= at instanceof OriginError
  }
  const message = messages.join(' <- ')
  if (isNetwork) return { message }
  return {
    message,
    stack: innermost.stack
      ?.split('\n')
      .slice(1, 6)
      .map((line) => line.trim()),
  }
}
