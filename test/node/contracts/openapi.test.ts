import { openApiContract } from '../../contracts/openapi.ts'

openApiContract('node')
openApiContract('worker')
