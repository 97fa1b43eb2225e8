import { outputLoadContract } from '../../contracts/output-load.ts'
import { startSilent } from '../../kit/node-gateway.ts'

outputLoadContract('a gateway on Node', startSilent)
