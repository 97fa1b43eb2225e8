import { startBuiltWorker } from '../kit/built-worker.ts'
import { attackSuite } from '../contracts/attacks/suite.ts'

attackSuite('the built Worker', {
  hosts: ['gateway.test'],
  isWorker: true,
  start: startBuiltWorker,
})
