import { sleepContract } from '../../contracts/sleep.ts'

sleepContract('worker')
