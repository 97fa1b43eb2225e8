import { ranksContract } from '../../contracts/ranks.ts'

ranksContract('the built Worker', 'worker')
