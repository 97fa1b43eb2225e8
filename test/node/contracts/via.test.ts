import { viaContract } from '../../contracts/via.ts'
import { startBuiltWorker } from '../../origin/built-worker.ts'
import { doors } from '../inbound/both-servers.ts'
import { startSilent } from '../replicas/silent-gateway.ts'

const worker = (document: object) =>
  startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) })

viaContract('a gateway on Node, by its plain door', { start: startSilent, host: doors.plain, observeShare: 1 })
viaContract('a gateway on Node, by node:http', { start: startSilent, host: doors.adapter, observeShare: 1 })
viaContract('the built Worker', { start: worker, observeShare: 1 })
viaContract('the built Worker, natively', { start: worker, observeShare: 0 })
