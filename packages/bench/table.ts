import type { BenchRow } from './result.ts'

/** Rows as an aligned text table: text to the left, numbers to the right. */
export function table(rows: readonly BenchRow[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  if (columns.length === 0) return '(no rows)\n'
  const cells = rows.map((row) => columns.map((column) => cell(row[column])))
  const widths = columns.map((column, at) => Math.max(column.length, ...cells.map((line) => line[at]!.length)))
  const numeric = columns.map((column) => rows.every((row) => typeof row[column] !== 'string'))
  const line = (texts: readonly string[]): string =>
    texts
      .map((text, at) => (numeric[at] ? text.padStart(widths[at]!) : text.padEnd(widths[at]!)))
      .join('  ')
      .trimEnd()
  return [line(columns), widths.map((width) => '-'.repeat(width)).join('  '), ...cells.map(line), ''].join('\n')
}

/** A value for people: about four significant digits, with grouped thousands. */
export function cell(value: BenchRow[string] | undefined): string {
  if (value === undefined || value === null) return '-'
  if (typeof value !== 'number') return String(value)
  if (!Number.isFinite(value)) return String(value)
  if (Number.isInteger(value)) return value.toLocaleString('en-US')
  const size = Math.abs(value)
  if (size >= 1000) return Math.round(value).toLocaleString('en-US')
  return size >= 1 ? value.toFixed(Math.max(0, 3 - Math.floor(Math.log10(size)))) : value.toPrecision(3)
}
