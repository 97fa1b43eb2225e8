import { mirrorsContract } from '../../contracts/mirrors.ts'

mirrorsContract('node')
