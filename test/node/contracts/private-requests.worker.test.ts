import { privateRequestsContract } from '../../contracts/private-requests.ts'

privateRequestsContract('worker')
