import { nodeOrigin } from '../../src/platform/node/origin.ts'
import { originContract } from '../contracts/origin.ts'
import { startRawEngine } from '../origin/raw-engine.ts'

originContract('nodeOrigin', {
  async open() {
    const engine = await startRawEngine()
    return { ...engine, origin: nodeOrigin() }
  },
})
