import { engineAnswersContract } from '../../contracts/engine-answers.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'

engineAnswersContract('the built Worker', (document) =>
  startBuiltWorker({ FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) }),
)
