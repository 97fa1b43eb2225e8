import { regionEnginesContract } from '../../contracts/region-engines.ts'

regionEnginesContract('worker')
