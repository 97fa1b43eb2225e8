import { continuationContract } from '../../contracts/continuation.ts'
import { continuationLimitsContract } from '../../contracts/continuation-limits.ts'
import { truncationCasesContract } from '../../contracts/truncation-cases.ts'
import { randomTruncationContract } from '../../contracts/random-truncations.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

continuationContract('the built Worker', startBuiltWorker)
randomTruncationContract('the built Worker', 60, startBuiltWorker)
truncationCasesContract('the built Worker', startBuiltWorker)
continuationLimitsContract('the built Worker', startBuiltWorker)
