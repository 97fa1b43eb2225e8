import { openApiContract } from '../../contracts/openapi.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

openApiContract('Node', (document) => startNodeGateway(document as Record<string, unknown>))
openApiContract('the built Worker', startBuiltWorker)
