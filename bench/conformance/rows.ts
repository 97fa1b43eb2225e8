/** All rows, in the order in which they run. */
import type { Row } from './row.ts'
import { recordings } from './rows/recordings.ts'

export const rows: readonly Row[] = [...recordings]
