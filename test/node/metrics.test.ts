import { parseConfig } from '../../src/config/parse.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startGateway } from '../../src/platform/node/start-gateway.ts'
import { metricsContract } from '../contracts/metrics.ts'
import { startBuiltWorker } from '../origin/built-worker.ts'

metricsContract('a gateway on Node', {
  isOne: true,
  async start(document) {
    const config = parseConfig({ ...document, listen: '127.0.0.1:0' }, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true })
    const gateway = await startGateway(config, openLog('silent'))
    return {
      url: gateway.url,
      async close() {
        await gateway.stop(AbortSignal.timeout(1_000))
      },
    }
  },
})

metricsContract('the built Worker', { isOne: false, start: (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }) })
