import { hedgeContract } from '../../contracts/hedge.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

hedgeContract('the built Worker', {
  start: startBuiltWorker,
  seesLeaving: false,
})
