import { ranksContract } from '../../contracts/ranks.ts'

ranksContract('node')
