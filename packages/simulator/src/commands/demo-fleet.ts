/** The fleet of the demo, its configuration and the text that the demo prints. */
import type { Config } from '../../../../src/config.ts'
import { parseConfig } from '../../../../src/config/parse.ts'
import { type RunningFleet, startFleet } from '../node/fleet-host.ts'

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

Send a request:

  curl -N ${url}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model":"${demoModel}","stream":true,"messages":[{"role":"user","content":"What is the first light of day?"}]}'

Stop an engine, watch the overview, and start the engine again:

  curl -X PUT ${fleet.controlUrl}/_sim/engines/${fleet.engines[0]!.settings.id}/fault \\
    -H 'content-type: application/json' -d '{"kind":"refuse"}'
  curl -X DELETE ${fleet.controlUrl}/_sim/engines/${fleet.engines[0]!.settings.id}/fault

Your own engines: ${ownEngines}
Ctrl-C ends the demo.`
}
