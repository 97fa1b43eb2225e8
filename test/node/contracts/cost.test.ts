import { costContract } from '../../contracts/cost.ts'

costContract('node')
