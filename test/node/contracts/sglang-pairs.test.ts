import { sglangPairsContract } from '../../contracts/sglang-pairs.ts'

sglangPairsContract('node')
