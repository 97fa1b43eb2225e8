import { inject } from 'vitest'
import { workersOrigin } from '../../src/platform/workers/origin.ts'
import { originContract } from '../contracts/origin.ts'
import '../contracts/raw-engine-context.ts'

originContract('workersOrigin', {
  skip: {
    'that nobody can connect to fails as connect':
      'workerd says "Network connection lost" for a refused connection and for a broken one',
    'whose chunk size is "5 " is cut after its first event': "workerd's HTTP client takes a blank after the size",
    'whose head has both lengths is refused': "workerd's HTTP client takes transfer-encoding and drops content-length",
    'whose head has a head without end is refused': "workerd's HTTP client has a larger limit for heads than this one",
  },
  open: async () => ({ ...inject('rawEngine'), origin: workersOrigin() }),
})
