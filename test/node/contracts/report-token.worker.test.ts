import { reportTokenContract } from '../../contracts/report-token.ts'

reportTokenContract('worker')
