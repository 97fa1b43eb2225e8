import { tokenContract } from '../../contracts/tokens.ts'
import { startBuiltWorker } from '../../origin/built-worker.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

tokenContract('a gateway on Node', startSilent)
tokenContract('the built Worker', (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }))
