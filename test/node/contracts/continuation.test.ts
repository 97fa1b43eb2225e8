import { continuationContract } from '../../contracts/continuation.ts'
import { continuationLimitsContract } from '../../contracts/continuation-limits.ts'
import { cutCasesContract } from '../../contracts/cut-cases.ts'
import { randomCutContract } from '../../contracts/random-cuts.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

continuationContract('a gateway on Node', startNodeGateway)
randomCutContract('a gateway on Node', 100, startNodeGateway)
cutCasesContract('a gateway on Node', startNodeGateway)
continuationLimitsContract('a gateway on Node', startNodeGateway)
