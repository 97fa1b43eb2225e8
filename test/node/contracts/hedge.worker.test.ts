import { hedgeContract } from '../../contracts/hedge.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

hedgeContract('the built Worker', {
  start: (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }),
  seesLeaving: false,
})
