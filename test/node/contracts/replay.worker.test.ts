import { parsedStreamContract } from '../../contracts/parsed-streams.ts'
import { replayContract } from '../../contracts/replay.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

replayContract('the built Worker', startBuiltWorker)
parsedStreamContract('the built Worker', startBuiltWorker)
