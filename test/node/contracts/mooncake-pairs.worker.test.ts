import { mooncakePairsContract } from '../../contracts/mooncake-pairs.ts'

mooncakePairsContract('worker')
