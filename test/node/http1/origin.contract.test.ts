import { socketOrigin } from '../../../src/platform/node/http1/origin.ts'
import { originContract } from '../../contracts/origin.ts'
import { startScriptedEngine } from '../../kit/scripted-engine.ts'

originContract('socketOrigin', {
  skip: {
    'a native answer that nobody can see end keeps its booking no longer than its limit, and passes to its end':
      'on Node every stream is seen to end',
  },
  async open() {
    const engine = await startScriptedEngine()
    return { ...engine, origin: socketOrigin() }
  },
})
