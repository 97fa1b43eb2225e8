import { costContract } from '../../contracts/cost.ts'

costContract('worker')
