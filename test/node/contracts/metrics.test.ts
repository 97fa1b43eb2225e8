import { metricsContract } from '../../contracts/metrics.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startSilent } from '../../kit/node-gateway.ts'

metricsContract('a gateway on Node', {
  start: startSilent,
})

metricsContract('the built Worker', {
  start: (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }),
})
