import { outputLoadContract } from '../../contracts/output-load.ts'

outputLoadContract('node')
