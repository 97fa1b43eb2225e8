import { pauseContract } from '../../contracts/pause.ts'

pauseContract('worker')
