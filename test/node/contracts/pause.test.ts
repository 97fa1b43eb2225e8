import { pauseContract } from '../../contracts/pause.ts'

pauseContract('node')
