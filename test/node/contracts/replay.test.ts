import { parsedStreamContract } from '../../contracts/parsed-streams.ts'
import { replayContract } from '../../contracts/replay.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

replayContract('a gateway on Node', startNodeGateway)
parsedStreamContract('a gateway on Node', startNodeGateway)
