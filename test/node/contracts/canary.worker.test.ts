import { canaryContract } from '../../contracts/canary.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

canaryContract('the built Worker', { start: startBuiltWorker })
