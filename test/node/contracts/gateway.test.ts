import { afterAll, beforeAll } from 'vitest'
import type { RunningGateway } from '../../../src/platform/node/start-gateway.ts'
import { gatewayContract, gatewayDocument, fetchRequest } from '../../contracts/gateway.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

let gateway: RunningGateway

beforeAll(async () => {
  // Nothing listens there: no case of the table needs an engine.
  gateway = await startNodeGateway(gatewayDocument(['http://127.0.0.1:9']))
})

afterAll(() => gateway.stop(AbortSignal.abort()))

gatewayContract('a gateway on Node', (request) => fetch(fetchRequest(gateway.url, request)))
