import { tokenContract } from '../../contracts/tokens.ts'

tokenContract('node')
tokenContract('worker')
