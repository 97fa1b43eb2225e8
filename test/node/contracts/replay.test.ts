import { parsedStreamContract } from '../../contracts/parsed-streams.ts'
import { replayContract } from '../../contracts/replay.ts'
import { startSilent } from '../../kit/node-gateway.ts'

replayContract('a gateway on Node', startSilent)
parsedStreamContract('a gateway on Node', startSilent)
