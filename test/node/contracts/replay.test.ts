import { parsedStreamContract } from '../../contracts/parsed-streams.ts'
import { replayContract } from '../../contracts/replay.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

replayContract('a gateway on Node', startSilent)
parsedStreamContract('a gateway on Node', startSilent)
