import { replayContract } from '../../contracts/replay.ts'
import { startBuiltWorker } from '../../origin/built-worker.ts'

replayContract('the built Worker', (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }))
