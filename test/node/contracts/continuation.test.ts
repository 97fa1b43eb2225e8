import { continuationContract } from '../../contracts/continuation.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

continuationContract('a gateway on Node', startSilent)
