/** The gateway as `firstlight serve` runs it, with its port on stdout and no request log. `node gateway.ts CONFIG` */
import { loadConfig } from '../../src/platform/node/load-config.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startGateway } from '../../src/platform/node/start-gateway.ts'
import { startThreads } from '../../src/platform/node/threads/start.ts'

const { config } = loadConfig(process.argv[2]!, process.env)
const log = openLog(config.log.level)
const gateway = config.threads === 1 ? await startGateway(config, log) : await startThreads(config, log, { count: Number(config.threads) })
console.log(JSON.stringify({ url: gateway.url }))
process.on('SIGTERM', () => void gateway.stop(AbortSignal.abort()).then(() => process.exit(0)))
