import { clientsContract } from '../../contracts/clients.ts'
import { gatewayContract, gatewayDocument, fetchRequest } from '../../contracts/gateway.ts'
import { startBuiltWorker, type BuiltWorker } from '../../kit/built-worker.ts'
import { afterAll, beforeAll } from 'vitest'

clientsContract('worker')

let worker: BuiltWorker
beforeAll(async () => {
  worker = await startBuiltWorker(gatewayDocument(['http://127.0.0.1:9']))
})
afterAll(() => worker.close())

// One connection each: workerd closes a connection with an unread body, perhaps while the next request is sent on it.
const alone = { connection: 'close' }

gatewayContract(
  'the built Worker',
  (request) => fetch(fetchRequest(worker.url, { ...request, headers: { ...request.headers, ...alone } })),
  {
    'refuses a body over the limit while it comes':
      'workerd resets the connection with the unread body, which may reach the client before the answer',
  },
)
