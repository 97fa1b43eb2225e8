import { tokenContract } from '../../contracts/tokens.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

tokenContract('a gateway on Node', startNodeGateway)
tokenContract('the built Worker', startBuiltWorker)
