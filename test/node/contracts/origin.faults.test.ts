import { faultTable } from '../../origin/faults.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

faultTable('the gateway on Node', {
  observeShare: 1,
  start: startSilent,
})
