import { regionEnginesContract } from '../../contracts/region-engines.ts'

regionEnginesContract('node')
