import { canaryContract } from '../../contracts/canary.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

canaryContract('a gateway on Node', { start: startNodeGateway })
