import { continuationContract } from '../../contracts/continuation.ts'
import { continuationLimitsContract } from '../../contracts/continuation-limits.ts'
import { truncationCasesContract } from '../../contracts/truncation-cases.ts'
import { randomTruncationContract } from '../../contracts/random-truncations.ts'

continuationContract('node')
randomTruncationContract('node', 100)
truncationCasesContract('node')
continuationLimitsContract('node')
