/** Text of a log line. */
import { logMessage } from '../../ports/log.ts'
import { OriginError } from '../../ports/origin.ts'

export type Fields = Readonly<Record<string, unknown>>

/** Fields that are never logged: credentials and texts of users. */
const NEVER: ReadonlySet<string> = new Set([
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

/**
 * One JSON object and a line feed. JSON escapes control characters, so no value can begin a line of its own.
 * @param start `{"level":"info","time":` and what else begins every line of this level
 */
export function logLine(start: string, time: string, event: string, fields: Fields): string {
  const text = members(fields)
  const separator = text && ','
  const message = JSON.stringify(logMessage(event))
  return `${start}"${time}","event":${JSON.stringify(event)},${text}${separator}"message":${message}}\n`
}

/** JSON of the fields without braces: `"a":1,"b":2`. */
export function members(fields: Fields): string {
  try {
    return JSON.stringify(isPrintable(fields) ? fields : printable(fields)).slice(1, -1)
  } catch (error) {
    // A cycle, or a number that JSON does not have. A log line is no reason to fail.
    return `"not_logged":${JSON.stringify(String(error))}`
  }
}

/** Whether the fields can be written as they are. Most can, and a copy would cost more than their text. */
function isPrintable(fields: Fields): boolean {
  for (const name in fields) if (NEVER.has(name) || fields[name] instanceof Error) return false
  return true
}

function printable(fields: Fields): Fields {
  const shown: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    if (!NEVER.has(name)) shown[name] = value instanceof Error ? describe(value) : value
  }
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
