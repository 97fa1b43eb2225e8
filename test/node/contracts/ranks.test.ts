import { ranksContract } from '../../contracts/ranks.ts'

ranksContract('a gateway on Node', 'node')
