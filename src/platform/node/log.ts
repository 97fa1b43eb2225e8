/** Structured logs by pino: one JSON line an event. */
import { createRequire } from 'node:module'
import pino from 'pino'
import type { LogConfig } from '../../config.ts'
import { type Log, logMessage } from '../../ports/log.ts'
import { OriginError } from '../../ports/origin.ts'
import { LogClock } from './log-clock.ts'
import { type LogTarget, standardOutput } from './standard-output.ts'

type Fields = Readonly<Record<string, unknown>>

interface NodeLog extends Log {
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
  const clock = new LogClock()
  let event = ''
  const logger = pino(
    {
      level,
      base,
      messageKey: 'message',
      // Adding the event to the fields would copy all of them, once per line.
      timestamp: () => `,"time":"${clock.time()}","event":${JSON.stringify(event)}`,
      formatters: { level: (label) => ({ level: label }) },
      serializers,
    },
    isText ? textTarget(destination) : destination,
  )
  // Most events of a busy gateway are below the level: they must cost nothing.
  const at =
    (name: 'debug' | 'info' | 'warn' | 'error') =>
    (named: string, fields: Fields = {}): void => {
      if (!logger.isLevelEnabled(name)) return
      event = named
      logger[name](fields, logMessage(named))
      if (name === 'warn' || name === 'error') destination.flush?.()
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
const NEVER = ['authorization', 'body', 'cookie', 'headers', 'key', 'messages', 'prompt', 'secret', 'token']

/** pino leaves out a field whose serializer returns undefined. */
const serializers: Readonly<Record<string, (value: unknown) => unknown>> = {
  ...Object.fromEntries(NEVER.map((name) => [name, () => undefined])),
  error: (value) => (value instanceof Error ? describe(value) : value),
  cause: (value) => (value instanceof Error ? describe(value) : value),
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
