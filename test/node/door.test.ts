import { afterAll, beforeAll } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startGateway, type RunningGateway } from '../../src/platform/node/start-gateway.ts'
import { doorContract, doorDocument, fetchRequest } from '../contracts/door.ts'

let gateway: RunningGateway

beforeAll(async () => {
  // Nothing listens there: no case of the table needs an engine.
  const document = { ...doorDocument(['http://127.0.0.1:9']), listen: '127.0.0.1:0' }
  gateway = await startGateway(parseConfig(document, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true }), openLog('silent'))
})

afterAll(() => gateway.stop(AbortSignal.abort()))

doorContract('a gateway on Node', (request) => fetch(fetchRequest(gateway.url, request)))
