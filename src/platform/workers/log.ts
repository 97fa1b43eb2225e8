/** Structured lines for Workers Logs: one JSON object each, errors with their causes. */
import type { LogConfig } from '../../config.ts'
import { type Log, logMessage } from '../../ports/log.ts'

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

type Write = (line: string) => void

/** `level` is a function, because the log is created before the configuration. */
export function workersLog(
  level: () => LogConfig['level'],
  write: Readonly<Record<'debug' | 'info' | 'warn' | 'error', Write>> = console,
): Log {
  const writes = (name: 'debug' | 'info' | 'warn' | 'error') => LEVELS.indexOf(name) >= LEVELS.indexOf(level())
  const at =
    (name: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: Readonly<Record<string, unknown>> = {}) => {
      if (!writes(name)) return
      write[name](
        JSON.stringify({ level: name, event, ...fields, message: logMessage(event) }, (_, value: unknown) =>
          value instanceof Error ? errorFields(value) : value,
        ),
      )
    }
  return { writes, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function errorFields(error: Error): unknown {
  return { name: error.name, message: error.message, ...(error.cause === undefined ? {} : { cause: error.cause }) }
}
