import { ranksContract } from '../../contracts/ranks.ts'

ranksContract('worker')
