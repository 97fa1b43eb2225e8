/** Entry point on Node with the gateway's commands only, and its I/O threads. `bin/program.ts` has all commands. */
import { gatewayCommands, run } from './cli/cli.ts'
import { processIo } from './cli/process-io.ts'
import { runThread, startedAsThread } from './platform/node/threads/thread.ts'

if (startedAsThread()) await runThread()
else process.exitCode = await run(process.argv.slice(2), processIo(), Object.values(gatewayCommands))
