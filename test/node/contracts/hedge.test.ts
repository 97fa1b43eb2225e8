import { hedgeContract } from '../../contracts/hedge.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

hedgeContract('a gateway on Node', { start: startNodeGateway, seesLeaving: true })
