import { useState } from 'preact/hooks'

/** Number of rows shown before the user asks for more. */
const FIRST_ROWS = 50

/** The first rows of a long table. `showAll`: null if all are drawn. */
export function useRowLimit<Row>(rows: readonly Row[]): {
  readonly drawn: readonly Row[]
  readonly showAll: (() => void) | null
} {
  const [all, setAll] = useState(false)
  const drawn = all ? rows : rows.slice(0, FIRST_ROWS)
  return { drawn, showAll: drawn.length < rows.length ? () => setAll(true) : null }
}
