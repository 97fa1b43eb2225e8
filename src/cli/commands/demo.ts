import type { Config } from '../../config.ts'
import { isLoopback } from '../../config/fields.ts'
import { openLog } from '../../platform/node/log.ts'
import { type RunningFleet, startFleet } from '../../platform/node/simulator-host.ts'
import { startGateway, type RunningGateway } from '../../platform/node/start-gateway.ts'
import { UsageError, type Args, type Command, type Io } from './command.ts'
import { listenFlag } from './args.ts'
import { aborted } from './serve.ts'
import { parseConfig } from '../../config/parse.ts'

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

const OWN_ENGINES = 'copy examples/firstlight.yaml, enter your engines, then run "npx firstlight serve".'

async function runDemo(args: Args, io: Io): Promise<number> {
  const wanted = listenFlag(args)
  if (wanted !== null && !isLoopback(wanted.host))
    throw new UsageError(
      'The demo has no keys and therefore listens on loopback only.',
      'Example: --listen 127.0.0.1:9000',
    )
  const fleet = await startDemoFleet(args.whole('engines', { min: 1, max: 64 }) ?? 4)
  try {
    const gateway = await startOnFreePort(fleet, wanted)
    io.out(demoGuide(gateway.url, fleet, { adminKey: null, ownEngines: OWN_ENGINES }))
    await aborted(io.stop)
    await gateway.stop(io.stopNow)
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

/* The fleet of the demo, its configuration and the text that it prints. */

export const demoModel = 'sim'

/** Starts the fleet of the demo on free loopback ports. */
export const startDemoFleet = (engines: number): Promise<RunningFleet> => startFleet({ engines, model: demoModel })

/** Creates the configuration of a gateway for this fleet, as an operator would write it. */
export function demoDocument(fleet: RunningFleet): { readonly clusters: readonly object[] } {
  const engines = fleet.engines.map(({ settings }, index) => ({ id: settings.id, url: fleet.urls[index]! }))
  return { clusters: [{ id: 'demo', pools: [{ model: demoModel, stats_interval_ms: 1000, engines }] }] }
}

export function demoConfig(fleet: RunningFleet, listen: Config['listen']): Config {
  const document = { ...demoDocument(fleet), log: { level: 'warn' }, limits: { drain_ms: 2000 } }
  return { ...parseConfig(document, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true }), listen }
}

interface GuideOptions {
  /** Key that the overview page needs; null: none. */
  readonly adminKey: string | null
  /** How to configure real engines, as a sentence. */
  readonly ownEngines: string
}

/** Formats the output of the demo. Every command works when pasted. */
export function demoGuide(url: string, fleet: RunningFleet, { adminKey, ownEngines }: GuideOptions): string {
  const names = fleet.engines.map(({ settings }, index) => `  ${settings.id.padEnd(9)} ${fleet.urls[index]}`)
  return `Firstlight with ${fleet.engines.length} simulated engines.

  overview  ${url}/
  dashboard ${url}/dashboard${adminKey === null ? '' : `   (admin key: ${adminKey})`}
  API       ${url}/v1
${names.join('\n')}

Ask it something:

  curl -N ${url}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model":"${demoModel}","stream":true,"messages":[{"role":"user","content":"What is the first light of day?"}]}'

Take an engine away while you watch the overview, and give it back:

  curl -X PUT ${fleet.controlUrl}/_sim/engines/${fleet.engines[0]!.settings.id}/fault \\
    -H 'content-type: application/json' -d '{"kind":"refuse"}'
  curl -X DELETE ${fleet.controlUrl}/_sim/engines/${fleet.engines[0]!.settings.id}/fault

Your own engines: ${ownEngines}
Ctrl-C ends the demo.`
}
