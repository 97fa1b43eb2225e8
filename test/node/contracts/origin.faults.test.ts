import { faultTable } from '../../origin/faults.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

faultTable('the gateway on Node', {
  observeShare: 1,
  start: startNodeGateway,
})
