/** All rows, in the order in which they run. */
import type { Row } from './row.ts'
import { eventRows } from './rows/events.ts'
import { recordings } from './rows/recordings.ts'
import { streamRows } from './rows/streams.ts'
import { tokenRows } from './rows/tokens.ts'

export const rows: readonly Row[] = [...recordings, ...streamRows, ...tokenRows, ...eventRows]
