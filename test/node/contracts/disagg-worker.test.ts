import { disaggContract } from '../../contracts/disagg.ts'
import { startBuiltWorker } from '../../origin/built-worker.ts'

disaggContract('the built Worker', {
  // workerd on a socket of its own notices that a client left only when it writes to it.
  seesLeaving: false,
  start: (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }),
})
