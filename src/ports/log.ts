export interface Log {
  /** true: lines of this level are written. Checked before a line per request is built. Absent: true. */
  writes?(level: 'info'): boolean
  debug(event: string, fields?: Readonly<Record<string, unknown>>): void
  info(event: string, fields?: Readonly<Record<string, unknown>>): void
  warn(event: string, fields?: Readonly<Record<string, unknown>>): void
  error(event: string, fields?: Readonly<Record<string, unknown>>): void
}

/** Field `message` of a line, which log services show: the event in words. */
export const logMessage = (event: string): string => event.replaceAll('_', ' ')
