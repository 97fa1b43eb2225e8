import { disaggContract } from '../../contracts/disagg.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

disaggContract('the built Worker', {
  // workerd on its own socket detects a client's disconnect only when it writes.
  seesLeaving: false,
  start: startBuiltWorker,
})
