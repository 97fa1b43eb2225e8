import { startBuiltWorker } from '../../kit/built-worker.ts'
import { faultTable } from '../../origin/faults.ts'

/** Heartbeats solve this; they have a test of their own. */
const ABORT_NOT_SEEN = 'workerd on a socket of its own notices that a client left only when it writes to it'

for (const observeShare of [0, 1]) {
  faultTable(`the built Worker (observe_share ${observeShare})`, {
    observeShare,
    skip: {
      'a gateway before engines that fail frees the engine of a client that leaves before the first token':
        ABORT_NOT_SEEN,
      'a gateway before engines that fail frees the engine of a client that leaves before an answer that is no stream':
        ABORT_NOT_SEEN,
    },
    start: startBuiltWorker,
  })
}
