import { repeatedRequestsContract } from '../contracts/repeated-requests.ts'

repeatedRequestsContract('workerd')
