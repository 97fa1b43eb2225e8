/**
 * Where an I/O thread begins when the sources run as they are; in the bundle that is the bundle itself (src/node.ts).
 */
import { runThread } from './thread.ts'

await runThread()
