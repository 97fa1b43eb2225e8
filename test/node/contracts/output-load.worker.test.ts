import { outputLoadContract } from '../../contracts/output-load.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

outputLoadContract('the built Worker', startBuiltWorker)
