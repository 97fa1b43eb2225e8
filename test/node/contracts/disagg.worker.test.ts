import { disaggContract } from '../../contracts/disagg.ts'

disaggContract('worker')
