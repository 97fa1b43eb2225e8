/** Structured logs by pino: one JSON line an event. */
import pino from 'pino'
import type { LogConfig } from '../../config.ts'
import { type Log, OriginError } from '../../ports.ts'
import { standardOutput, type LogTarget } from './standard-output.ts'

type Fields = Readonly<Record<string, unknown>>

export interface NodeLog extends Log {
  setLevel(level: LogConfig['level']): void
}

/** Writes to stdout, or to `target`; `base` stands in every line. */
export function openLog(level: LogConfig['level'], target?: LogTarget, base: Fields | null = null): NodeLog {
  const logger = pino(
    {
      level,
      base,
      messageKey: 'event',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    target ?? standardOutput(),
  )
  // Most events of a busy gateway are below the level: they must cost nothing.
  const at =
    (name: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: Fields = {}): void => {
      if (logger.isLevelEnabled(name)) logger[name](printable(fields), event)
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

/** What never stands in a log, whoever passes it: credentials, and what users wrote. */
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

function printable(fields: Fields): Fields {
  const shown: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (!never.has(name)) shown[name] = value instanceof Error ? describe(value) : value
  }
  return shown
}

/** An error with its causes, each in a line. The stack of the innermost says where it began; a network error needs none. */
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
