import { protocolFaultsContract } from '../../contracts/protocol-faults.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

protocolFaultsContract('the built Worker', (document) =>
  startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) }),
)
