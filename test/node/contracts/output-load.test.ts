import { outputLoadContract } from '../../contracts/output-load.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

outputLoadContract('a gateway on Node', startSilent)
