import { contentTypeContract } from '../../contracts/content-type.ts'
import { runtimes } from '../../kit/gateway.ts'

for (const [name, runtime] of runtimes) contentTypeContract(name, runtime)
