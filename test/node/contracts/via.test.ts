import { viaContract } from '../../contracts/via.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { servers } from '../inbound/both-servers.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

viaContract('a gateway on Node, by its own HTTP/1.1 server', {
  start: startNodeGateway,
  host: servers.plain,
  observeShare: 1,
})
viaContract('a gateway on Node, by node:http', { start: startNodeGateway, host: servers.adapter, observeShare: 1 })
viaContract('the built Worker', { start: startBuiltWorker, observeShare: 1 })
viaContract('the built Worker, natively', { start: startBuiltWorker, observeShare: 0 })
