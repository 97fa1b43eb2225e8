import { clientHeadersContract } from '../../contracts/client-headers.ts'

clientHeadersContract('worker')
