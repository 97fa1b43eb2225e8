import { continuationContract } from '../../contracts/continuation.ts'
import { randomCutContract } from '../../contracts/random-cuts.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

continuationContract('a gateway on Node', startSilent)
randomCutContract('a gateway on Node', 100, startSilent)
