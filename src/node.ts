/** Entry point on Node: the `firstlight` command, and its I/O threads, because the bundle is one file. */
import { main } from './cli/cli.ts'
import { processIo } from './cli/process-io.ts'
import { runThread, startedAsThread } from './platform/node/threads/thread.ts'

if (startedAsThread()) await runThread()
else process.exitCode = await main(process.argv.slice(2), processIo())
