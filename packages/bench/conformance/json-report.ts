/** Result of a run as JSON (`--json FILE`). */
import type { RowResult } from './page.ts'

export interface JsonReport {
  readonly rows: readonly {
    readonly row: string
    readonly passed: boolean
    readonly seen: string
    readonly seconds: number
  }[]
  /** Each figure that rows measured: the largest value of all of them. */
  readonly headline: Readonly<Record<string, number>>
}

export function jsonReport(results: readonly RowResult[]): JsonReport {
  const headline: Record<string, number> = {}
  for (const { figures = {} } of results)
    for (const [name, value] of Object.entries(figures)) headline[name] = Math.max(headline[name] ?? -Infinity, value)
  const rows = results.map(({ name: row, passed, seen, seconds }) => ({ row, passed, seen, seconds }))
  return { rows, headline }
}
