import { tokenContract } from '../../contracts/tokens.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startSilent } from '../../kit/node-gateway.ts'

tokenContract('a gateway on Node', startSilent)
tokenContract('the built Worker', (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }))
