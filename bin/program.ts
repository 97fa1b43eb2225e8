/** Entry point of the `firstlight` command. */
import { processIo } from '../src/cli/process-io.ts'
import { main } from './commands.ts'

process.exitCode = await main(process.argv.slice(2), processIo())
