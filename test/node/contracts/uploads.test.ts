import { uploadsContract } from '../../contracts/uploads.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

uploadsContract('a gateway on Node', startNodeGateway)
uploadsContract('the built Worker', startBuiltWorker)
