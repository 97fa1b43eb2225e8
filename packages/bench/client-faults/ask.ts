/** Lets a client ask for every fault through a gateway before two engines that both have it. */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildWorker } from '../../../scripts/build-worker.ts'
import { startEdge } from '../../../scripts/edge.ts'
import type { GatewayKind } from '../conformance/gateway.ts'
import type { Processes } from '../conformance/processes.ts'
import { inCache, serveAlone } from '../conformance/standalone.ts'
import { ClientFaultEngine, MODEL } from './client-fault-engine.ts'
import type { FaultClient } from './clients.ts'
import { faultNames, faults, promptOf, type ClientFault } from './faults.ts'
import { folderOf, pythonOf } from './install.ts'

const KEY = 'key-of-clients'

/** What a client made of one answer. */
export interface SeenAnswer {
  readonly protocol: string
  readonly fault: ClientFault | 'none'
  /** Class of the error. null: the client returned a text. */
  readonly raised: string | null
  readonly text?: string
  readonly status?: number | null
  readonly retryAfter?: string | null
}

export async function askAll(client: FaultClient, kind: GatewayKind, processes: Processes): Promise<SeenAnswer[]> {
  const engines = [await ClientFaultEngine.open(), await ClientFaultEngine.open()]
  try {
    const gateway = await openGateway(kind, processes, engines)
    try {
      return JSON.parse(await processes.output([...commandOf(client), client.name, gateway.url, KEY, casesText()]))
    } finally {
      await gateway.stop()
    }
  } finally {
    for (const engine of engines) engine.close()
  }
}

/** A complete answer of each kind first: without it, an error would show nothing. */
function casesText(): string {
  const complete = [true, false].map((stream) => ({ fault: 'none', prompt: promptOf('none'), stream }))
  const faulty = faultNames.map((fault) => ({ fault, prompt: promptOf(fault), stream: faults[fault].stream }))
  return JSON.stringify([...complete, ...faulty])
}

function commandOf({ language }: FaultClient): readonly string[] {
  const folder = folderOf(language)
  if (language === 'python') return [pythonOf(folder), fileURLToPath(new URL('ask_clients.py', import.meta.url))]
  const script = join(folder, 'ask-clients.mjs')
  copyFileSync(new URL('ask-clients.mjs', import.meta.url), script)
  return [process.execPath, script]
}

interface Gateway {
  readonly url: string
  stop(): Promise<void>
}

/** No circuit opens and no retry is refused, so that each case meets both engines. */
async function openGateway(
  kind: GatewayKind,
  processes: Processes,
  engines: readonly ClientFaultEngine[],
): Promise<Gateway> {
  const pool = {
    model: MODEL,
    engines: engines.map(({ url }, at) => ({ id: `engine-${at}`, url })),
    circuit: { failures: 1000 },
    retry: { share: 1, min_per_s: 1000 },
    // On Workers, the end of a stream that is not observed is not seen (docs/deploy-workers.md).
    observe_share: 1,
  }
  const document = {
    keys: [{ name: 'clients', secret: KEY }],
    log: { level: 'warn' },
    clusters: [{ id: 'lab', pools: [pool] }],
  }
  if (kind === 'node') return serveAlone({ processes }, 'client-faults', document)
  const script = await (worker ??= buildWorker(inCache('client-faults-worker')))
  return startEdge({ port: 0, script, bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(document) }, quiet: true })
}

let worker: Promise<string> | null = null
