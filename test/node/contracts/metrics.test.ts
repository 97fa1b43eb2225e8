import { metricsContract } from '../../contracts/metrics.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

metricsContract('a gateway on Node', {
  start: startNodeGateway,
})

metricsContract('the built Worker', {
  start: startBuiltWorker,
})
