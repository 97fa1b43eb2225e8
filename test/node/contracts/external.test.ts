import { externalContract } from '../../contracts/external.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

externalContract('Node', (document) => startNodeGateway(withKey(document)))
externalContract('the built Worker', (document) => startBuiltWorker(withKey(document)))

/** The key as text, because neither start sets environment variables. */
function withKey(document: Record<string, unknown>): Record<string, unknown> {
  return JSON.parse(JSON.stringify(document).replace('{"env":"K"}', '"provider-key"')) as Record<string, unknown>
}
