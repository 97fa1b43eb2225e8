import { hedgeContract } from '../../contracts/hedge.ts'
import { startBuiltWorker } from '../../origin/built-worker.ts'

hedgeContract('the built Worker', {
  start: (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }),
  seesLeaving: false,
})
