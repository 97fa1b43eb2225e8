import { parseConfig } from '../../src/config/parse.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startGateway } from '../../src/platform/node/start-gateway.ts'
import { faultTable } from '../origin/faults.ts'

faultTable('the gateway on Node', {
  observeShare: 1,
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
