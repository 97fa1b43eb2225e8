/** Entry point on Node with the gateway's commands only. `bin/program.ts` has all commands. */
import { gatewayCommands, run } from './cli/cli.ts'
import { processIo } from './cli/process-io.ts'

process.exitCode = await run(process.argv.slice(2), processIo(), Object.values(gatewayCommands))
