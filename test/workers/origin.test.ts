/// <reference path="../contracts/raw-engine.d.ts" />
import { inject } from 'vitest'
import { workersOrigin } from '../../src/platform/workers/origin.ts'
import { originContract } from '../contracts/origin.ts'

originContract('workersOrigin', {
  open: async () => ({ ...inject('rawEngine'), origin: workersOrigin() }),
})
