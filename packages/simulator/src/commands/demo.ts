import type { Config } from '../../../../src/config.ts'
import { isLoopback } from '../../../../src/config/address.ts'
import { openLog } from '../../../../src/platform/node/log.ts'
import { untilAborted } from '../../../../src/platform/node/signals.ts'
import type { RunningFleet } from '../node/fleet-host.ts'
import { type RunningGateway, startGateway } from '../../../../src/platform/node/start-gateway.ts'
import type { Args, Command, Io } from '../../../../src/cli/commands/command.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'
import { listenFlag } from '../../../../src/cli/commands/common-flags.ts'
import { demoConfig, demoGuide, startDemoFleet } from './demo-fleet.ts'

export const demo: Command = {
  name: 'demo',
  summary: 'Run the gateway with simulated engines.',
  examples: ['firstlight demo', 'firstlight demo --engines 8 --listen 127.0.0.1:9000'],
  positionals: null,
  flags: {
    engines: { type: 'string', value: 'N', about: 'Number of simulated engines. Default: 4.' },
    listen: {
      type: 'string',
      value: 'HOST:PORT',
      about: 'Listen address of the gateway. Default: 127.0.0.1:8080, or any free port if that is in use.',
    },
  },
  run: runDemo,
}

const OWN_ENGINES = 'run "npx firstlight init", which writes a configuration, then "npx firstlight serve".'

async function runDemo(args: Args, io: Io): Promise<number> {
  const wanted = listenFlag(args)
  if (wanted !== null && !isLoopback(wanted.host))
    throw new UsageError(
      'The demo has no keys and therefore listens on loopback only.',
      'Example: --listen 127.0.0.1:9000',
    )
  // Reading `stop` installs the handlers, before a port opens.
  const { stop, stopNow } = io
  const fleet = await startDemoFleet(args.whole('engines', { min: 1, max: 64 }) ?? 4)
  try {
    const gateway = await startOnFreePort(fleet, wanted)
    io.out(demoGuide(gateway.url, fleet, { adminKey: null, ownEngines: OWN_ENGINES }))
    await untilAborted(stop)
    await gateway.stop(stopNow)
  } finally {
    await fleet.close()
  }
  return 0
}

/** Port 8080 is only the default here, so any free port is acceptable. */
async function startOnFreePort(fleet: RunningFleet, wanted: Config['listen'] | null): Promise<RunningGateway> {
  const start = (listen: Config['listen']) => startGateway(demoConfig(fleet, listen), openLog('warn'))
  if (wanted !== null) return start(wanted)
  try {
    return await start({ host: '127.0.0.1', port: 8080 })
  } catch (error) {
    if ((error as { code?: string }).code !== 'EADDRINUSE') throw error
    return start({ host: '127.0.0.1', port: 0 })
  }
}
