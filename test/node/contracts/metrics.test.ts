import { metricsContract } from '../../contracts/metrics.ts'
import { startBuiltWorker } from '../../origin/built-worker.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

metricsContract('a gateway on Node', {
  start: startSilent,
})

metricsContract('the built Worker', {
  start: (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }),
})
