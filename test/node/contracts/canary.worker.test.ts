import { canaryContract } from '../../contracts/canary.ts'

canaryContract('worker')
