import { protocolUsageContract } from '../../contracts/protocol-usage.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

protocolUsageContract('Node', startNodeGateway)
