/** The Node entry: the `firstlight` command. */
import { main, processIo } from './platform/node/cli.ts'

process.exitCode = await main(process.argv.slice(2), processIo())
