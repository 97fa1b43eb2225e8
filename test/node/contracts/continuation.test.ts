import { continuationContract } from '../../contracts/continuation.ts'
import { continuationLimitsContract } from '../../contracts/continuation-limits.ts'
import { truncationCasesContract } from '../../contracts/truncation-cases.ts'
import { randomTruncationContract } from '../../contracts/random-truncations.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

continuationContract('a gateway on Node', startNodeGateway)
randomTruncationContract('a gateway on Node', 100, startNodeGateway)
truncationCasesContract('a gateway on Node', startNodeGateway)
continuationLimitsContract('a gateway on Node', startNodeGateway)
