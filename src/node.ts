/** The Node entry: the `firstlight` command; and, as the bundle is one file, its I/O threads. */
import { main, processIo } from './cli/cli.ts'
import { runThread, startedAsThread } from './platform/node/threads/thread.ts'

if (startedAsThread()) await runThread()
else process.exitCode = await main(process.argv.slice(2), processIo())
