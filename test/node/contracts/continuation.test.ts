import { continuationContract } from '../../contracts/continuation.ts'
import { continuationLimitsContract } from '../../contracts/continuation-limits.ts'
import { cutCasesContract } from '../../contracts/cut-cases.ts'
import { randomCutContract } from '../../contracts/random-cuts.ts'
import { startSilent } from '../../kit/node-gateway.ts'

continuationContract('a gateway on Node', startSilent)
randomCutContract('a gateway on Node', 100, startSilent)
cutCasesContract('a gateway on Node', startSilent)
continuationLimitsContract('a gateway on Node', startSilent)
