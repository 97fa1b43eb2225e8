import { attackSuite } from '../contracts/attacks/suite.ts'
import { startNodeGateway } from '../kit/node-gateway.ts'
import { servers } from '../node/inbound/both-servers.ts'

attackSuite('Node', {
  hosts: Object.values(servers),
  isWorker: false,
  start: async (document) => {
    const gateway = await startNodeGateway(document)
    return { url: gateway.url, close: async () => void (await gateway.stop(AbortSignal.abort())) }
  },
})
