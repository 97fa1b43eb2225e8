import { disaggContract } from '../../contracts/disagg.ts'

disaggContract('node')
