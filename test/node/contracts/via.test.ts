import { viaContract } from '../../contracts/via.ts'
import { servers } from '../inbound/both-servers.ts'

viaContract('by its own HTTP/1.1 server', { runtime: 'node', host: servers.plain, observeShare: 1 })
viaContract('by node:http', { runtime: 'node', host: servers.adapter, observeShare: 1 })
viaContract('with observed streams', { runtime: 'worker', observeShare: 1 })
viaContract('with native streams', { runtime: 'worker', observeShare: 0 })
