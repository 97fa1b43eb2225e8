import { externalContract } from '../../contracts/external.ts'

externalContract('node')
externalContract('worker')
