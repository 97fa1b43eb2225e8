/** Entry of an I/O thread when the sources run directly. In the bundle, the bundle is the entry (src/node.ts). */
import { runThread } from './thread.ts'

await runThread()
