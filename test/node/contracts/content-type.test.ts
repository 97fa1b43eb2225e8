import { contentTypeContract } from '../../contracts/content-type.ts'

contentTypeContract('node')
contentTypeContract('worker')
