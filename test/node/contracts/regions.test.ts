import { regionsContract } from '../../contracts/regions.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

regionsContract('gateways on Node', { start: startNodeGateway, observeShare: 1 })
regionsContract('built Workers', { start: startBuiltWorker, observeShare: 1 })
regionsContract('built Workers, natively', { start: startBuiltWorker, observeShare: 0 })
