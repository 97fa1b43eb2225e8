import { protocolUsageContract } from '../../contracts/protocol-usage.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

protocolUsageContract('the built Worker', (document) =>
  startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) }),
)
