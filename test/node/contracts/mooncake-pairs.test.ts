import { mooncakePairsContract } from '../../contracts/mooncake-pairs.ts'

mooncakePairsContract('node')
