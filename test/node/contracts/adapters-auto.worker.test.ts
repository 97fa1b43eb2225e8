import { adaptersAutoContract } from '../../contracts/adapters-auto.ts'

adaptersAutoContract('worker')
