import { hedgeContract } from '../../contracts/hedge.ts'
import { startSilent } from '../../kit/node-gateway.ts'

hedgeContract('a gateway on Node', { start: startSilent, seesLeaving: true })
