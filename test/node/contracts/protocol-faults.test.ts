import { protocolFaultsContract } from '../../contracts/protocol-faults.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

protocolFaultsContract('Node', startNodeGateway)
