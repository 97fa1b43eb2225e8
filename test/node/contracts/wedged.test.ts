import { wedgedContract } from '../../contracts/wedged.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

wedgedContract('a gateway on Node', { start: startNodeGateway })
