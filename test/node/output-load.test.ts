import { outputLoadContract } from '../contracts/output-load.ts'
import { startBuiltWorker } from '../origin/built-worker.ts'
import { startSilent } from './silent-gateway.ts'

outputLoadContract('a gateway on Node', startSilent)
outputLoadContract('the built Worker', (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }))
