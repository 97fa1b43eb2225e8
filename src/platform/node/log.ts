/** Structured logs: one JSON line an event. Why without pino: docs/decisions/access-log.md. */
import { createRequire } from 'node:module'
import type { LogConfig } from '../../config.ts'
import type { Log } from '../../ports/log.ts'
import { LogClock } from './log-clock.ts'
import { type Fields, logLine, members } from './log-line.ts'
import { type LogTarget, standardOutput } from './standard-output.ts'

interface NodeLog extends Log {
  setLevel(level: LogConfig['level']): void
  /** Each line is also written to `target`, as JSON. null: to none. */
  copyTo(target: LogTarget | null): void
}

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

/** Opens a log on stdout or `target`. `base`: fields of every line. */
export function openLog(
  level: LogConfig['level'],
  target?: LogTarget,
  base: Fields | null = null,
  format: LogConfig['format'] = 'auto',
): NodeLog {
  const isText = format === 'text' || (format === 'auto' && target === undefined && process.stdout.isTTY)
  const output = target ?? standardOutput()
  const written = isText ? textTarget(output) : output
  const clock = new LogClock()
  const common = base === null ? '' : `${members(base)},`
  let lowest = LEVELS.indexOf(level)
  let copy: LogTarget | null = null
  // Most events of a busy gateway are below the level: they must cost nothing.
  const at = (name: Exclude<LogConfig['level'], 'silent'>) => {
    const severity = LEVELS.indexOf(name)
    const start = `{"level":"${name}",${common}"time":`
    return (event: string, fields: Fields = {}): void => {
      if (severity < lowest) return
      const line = logLine(start, clock.time(), event, fields)
      written.write(line)
      copy?.write(line)
      if (severity > LEVELS.indexOf('info')) output.flush?.()
    }
  }
  return {
    writes: (name) => LEVELS.indexOf(name) >= lowest,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    setLevel: (next) => {
      lowest = LEVELS.indexOf(next)
    },
    copyTo: (next) => {
      copy = next
    },
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
