import { hedgeContract } from '../../contracts/hedge.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

hedgeContract('a gateway on Node', { start: startSilent, seesLeaving: true })
