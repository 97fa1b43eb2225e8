/** Firstlight and other gateways in front of the same engines; one that cannot start is skipped with its reason. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServed, type StartedProcess } from '../proxy/processes.ts'
import { startDynamo } from './dynamo.ts'
import { startPeer } from './start-peer.ts'

export const OWN = 'firstlight'
export const ROUND_ROBIN = 'vllm-router:round_robin'
export const SMG_CACHE_AWARE = 'smg:cache_aware'
/** Policies of SMG that are compared. */
export const SMG_POLICIES = ['smg:round_robin', SMG_CACHE_AWARE, 'smg:least_load', 'smg:prefix_hash'] as const

/** Before the mode of Dynamo's router. */
const DYNAMO = 'dynamo:'

export interface Gateway extends StartedProcess {
  readonly name: string
  /** Required lines of each request's head. */
  readonly head: string
  /** It has other engines, which ignore the pace. */
  readonly hasOwnEngines: boolean
  /** Resolves when its process has ended, or will end by itself. */
  end(): Promise<void>
}

export interface GatewaySite {
  /** URLs of the engines. */
  readonly engines: readonly string[]
  readonly model: string
  /** Folder for files. */
  readonly work: string
  /** Folder of Python environments; null: programs on the path. */
  readonly installed: string | null
  /** Whether a gateway is to be measured. */
  chosen(name: string): boolean
  note(line: string): void
}

/** null: it is not chosen, or does not start. @param flags further flags of a peer */
export async function startGateway(
  name: string,
  site: GatewaySite,
  flags: readonly string[] = [],
): Promise<Gateway | null> {
  const { engines, model, work, installed, note } = site
  if (!site.chosen(name)) return null
  if (name === OWN) {
    const started = await startServed(configFile(site))
    return { ...started, name, head: '', hasOwnEngines: false, end: () => Promise.resolve(started.stop()) }
  }
  try {
    if (name.startsWith(DYNAMO)) {
      const dynamo = await startDynamo({ mode: name.slice(DYNAMO.length), model, work, installed })
      return { ...dynamo, name, hasOwnEngines: true }
    }
    return { ...(await startPeer({ name, engines, model, work, installed, flags })), name, hasOwnEngines: false }
  } catch (error) {
    note(`SKIPPED ${name}: ${error instanceof Error ? error.message : String(error)}`)
    return null
  }
}

/** Policy `predicted`, and the peers' log level: warnings. */
function configFile({ engines, model, work }: GatewaySite): string {
  mkdirSync(work, { recursive: true })
  const file = join(work, 'firstlight.json')
  const pool = { model, engines: engines.map((url, at) => ({ id: `e${at}`, url })) }
  const document = { listen: '127.0.0.1:0', open: true, log: { level: 'warn' } }
  writeFileSync(file, JSON.stringify({ ...document, clusters: [{ id: 'bench', pools: [pool] }] }))
  return file
}
