import { continuationContract } from '../../contracts/continuation.ts'
import { continuationLimitsContract } from '../../contracts/continuation-limits.ts'
import { cutCasesContract } from '../../contracts/cut-cases.ts'
import { randomCutContract } from '../../contracts/random-cuts.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

continuationContract('the built Worker', (document) =>
  startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }),
)
randomCutContract('the built Worker', 60, (document) =>
  startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }),
)
cutCasesContract('the built Worker', (document) => startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }))
continuationLimitsContract('the built Worker', (document) =>
  startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify(document) }),
)
