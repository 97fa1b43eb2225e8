import { wedgedStreamsContract } from '../../contracts/wedged-streams.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

wedgedStreamsContract('a gateway on Node', { start: startNodeGateway })
