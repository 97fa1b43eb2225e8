/** Entry point of the `firstlight` command, and of its I/O threads, because the bundle is one file. */
import { processIo } from '../src/cli/process-io.ts'
import { runThread, startedAsThread } from '../src/platform/node/threads/thread.ts'
import { main } from './commands.ts'

if (startedAsThread()) await runThread()
else process.exitCode = await main(process.argv.slice(2), processIo())
