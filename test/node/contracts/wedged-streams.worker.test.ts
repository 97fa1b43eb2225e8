import { wedgedStreamsContract } from '../../contracts/wedged-streams.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

wedgedStreamsContract('the built Worker', { start: startBuiltWorker })
