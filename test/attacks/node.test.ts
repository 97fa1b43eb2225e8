import { parseConfig } from '../../src/config/parse.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startGateway } from '../../src/platform/node/start-gateway.ts'
import { attackSuite } from '../contracts/attacks/suite.ts'
import { servers } from '../node/inbound/both-servers.ts'

attackSuite('Node', {
  hosts: Object.values(servers),
  isWorker: false,
  start: async (document) => {
    const config = parseConfig(
      { ...document, listen: '127.0.0.1:0' },
      {},
      { defaultVersion: 1, defaultObserveShare: 1, listens: true },
    )
    const gateway = await startGateway(config, openLog('silent', { write: () => {} }))
    return { url: gateway.url, close: async () => void (await gateway.stop(AbortSignal.abort())) }
  },
})
