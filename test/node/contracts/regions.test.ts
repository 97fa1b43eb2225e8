import { regionsContract } from '../../contracts/regions.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

const worker = (document: object) =>
  startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) })

regionsContract('gateways on Node', { start: startNodeGateway, observeShare: 1 })
regionsContract('built Workers', { start: worker, observeShare: 1 })
regionsContract('built Workers, natively', { start: worker, observeShare: 0 })
