import { hedgeContract } from '../../contracts/hedge.ts'

hedgeContract('node')
