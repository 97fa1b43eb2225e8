/** Entry point of an I/O thread. */
import { runThread } from './thread.ts'

await runThread()
