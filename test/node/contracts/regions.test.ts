import { regionsContract } from '../../contracts/regions.ts'

regionsContract('node', 1)
regionsContract('worker', 1)
regionsContract('worker', 0)
