import { parsedStreamContract } from '../../contracts/parsed-streams.ts'
import { replayContract } from '../../contracts/replay.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

const start = (document: Record<string, unknown>) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) })

replayContract('the built Worker', start)
parsedStreamContract('the built Worker', start)
