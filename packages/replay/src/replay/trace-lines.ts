import { TraceError } from './trace-error.ts'

/** Objects of a text with one per line, and their lines. Throws a TraceError. */
export function* objectLines(text: string): Generator<{ readonly row: object; readonly line: number }> {
  let line = 0
  for (let from = 0; from < text.length;) {
    const end = text.indexOf('\n', from)
    const piece = text.slice(from, end === -1 ? text.length : end).trim()
    from = end === -1 ? text.length : end + 1
    line += 1
    if (piece !== '') yield { row: objectIn(piece, line), line }
  }
}

/** Parses one line as an object. Throws a TraceError. */
export function objectIn(text: string, line: number): object {
  let row: unknown
  try {
    row = JSON.parse(text)
  } catch {
    throw new TraceError(line, 'is not JSON')
  }
  if (typeof row !== 'object' || row === null) throw new TraceError(line, 'is not an object')
  return row
}
