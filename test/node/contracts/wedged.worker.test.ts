import { wedgedContract } from '../../contracts/wedged.ts'

wedgedContract('worker')
