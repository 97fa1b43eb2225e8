import { wedgedContract } from '../../contracts/wedged.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

wedgedContract('the built Worker', { start: startBuiltWorker })
