import { adaptersContract } from '../../contracts/adapters.ts'

adaptersContract('node')
