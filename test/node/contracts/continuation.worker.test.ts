import { continuationContract } from '../../contracts/continuation.ts'
import { continuationLimitsContract } from '../../contracts/continuation-limits.ts'
import { cutCasesContract } from '../../contracts/cut-cases.ts'
import { randomCutContract } from '../../contracts/random-cuts.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

continuationContract('the built Worker', startBuiltWorker)
randomCutContract('the built Worker', 60, startBuiltWorker)
cutCasesContract('the built Worker', startBuiltWorker)
continuationLimitsContract('the built Worker', startBuiltWorker)
