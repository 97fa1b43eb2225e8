import { outputLoadContract } from '../../contracts/output-load.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

outputLoadContract('a gateway on Node', startNodeGateway)
