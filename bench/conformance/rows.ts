/** All rows, in the order in which they run. */
import type { Row } from './row.ts'
import { busyRows } from './rows/busy.ts'
import { clientRows } from './rows/clients.ts'
import { nixlRecording, splitRows } from './rows/disaggregation.ts'
import { eventRows } from './rows/events.ts'
import { engineDies, faultRows, hostileRow } from './rows/faults.ts'
import { forwardingRows } from './rows/forwarding.ts'
import { recordings } from './rows/recordings.ts'
import { routingRows } from './rows/routing.ts'
import { streamRows } from './rows/streams.ts'
import { tokenRows } from './rows/tokens.ts'

export const rows: readonly Row[] = [
  ...recordings, ...streamRows, ...tokenRows, ...eventRows,
  ...gatewayRows('node'), ...routingRows, ...gatewayRows('worker'),
  hostileRow('node'), hostileRow('worker'), engineDies('node'),
  nixlRecording, ...splitRows('node'),
]

function gatewayRows(kind: 'node' | 'worker'): readonly Row[] {
  return [...forwardingRows(kind), ...clientRows(kind), ...faultRows(kind), ...busyRows(kind)]
}
