import { socketOrigin } from '../../../src/platform/node/fast/origin.ts'
import { originContract } from '../../contracts/origin.ts'
import { startRawEngine } from '../../origin/raw-engine.ts'

originContract('socketOrigin', {
  async open() {
    const engine = await startRawEngine()
    return { ...engine, origin: socketOrigin() }
  },
})
