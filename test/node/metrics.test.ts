import { metricsContract } from '../contracts/metrics.ts'
import { startBuiltWorker } from '../origin/built-worker.ts'
import { startSilent } from './silent-gateway.ts'

metricsContract('a gateway on Node', {
  isOne: true,
  start: startSilent,
})

metricsContract('the built Worker', { isOne: false, start: (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }) })
