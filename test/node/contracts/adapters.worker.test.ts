import { adaptersContract } from '../../contracts/adapters.ts'

adaptersContract('worker')
