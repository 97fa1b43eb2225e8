import { uploadsContract } from '../../contracts/uploads.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startSilent } from '../../kit/node-gateway.ts'

uploadsContract('a gateway on Node', startSilent)
uploadsContract('the built Worker', (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }))
