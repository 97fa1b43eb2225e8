/** The gateway as a user runs it, in front of real engines: on Node, or the built Worker in workerd. */
import { writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { engineKey, servedModel } from './engine.ts'
import type { RealEngine } from './engine.ts'
import { cacheFolder } from './environment.ts'
import { freePorts, send } from './http.ts'
import type { Processes, RunningProcess } from './processes.ts'

export type GatewayKind = 'node' | 'worker'

export interface RunningGateway {
  readonly kind: GatewayKind
  readonly url: string
  readonly process: RunningProcess
  stop(): Promise<void>
}

export interface GatewayOptions {
  readonly kind: GatewayKind
  /** Name of its configuration file. */
  readonly name: string
  readonly processes: Processes
  note(line: string): void
  readonly engines: readonly RealEngine[]
  /** Added to each engine's configuration. */
  readonly each: object
  /** Replaces fields of the pool's configuration. */
  readonly pool: object
  /** Added to the document. */
  readonly document: object
  /** Absent: any free port. */
  readonly port?: number
  /** Isolates of a Worker, behind a balancer. Absent: one, without. */
  readonly isolates?: number
}

export const gatewayKey = 'client-secret'
export const adminKey = 'admin-secret'
/** A model name that only the gateway has. */
export const alias = 'small-talk'

const workerFolder = join(cacheFolder, 'worker')
const vocabulary = join(cacheFolder, 'tiny.vocab')
/** Name of the models' vocabulary in a pool: a file on Node, a key of the KV namespace on Workers. */
export const vocabularyOf: Readonly<Record<GatewayKind, string>> = { node: vocabulary, worker: basename(vocabulary) }
const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Round robin, so that both engines get work; health is checked twice a second. */
function configFor({ engines, kind, each, pool: more, document }: GatewayOptions, port: number): object {
  // Workers measure in bytes here.
  const tokenizer = kind === 'node' ? { tokenizer: vocabulary } : {}
  const pool = {
    model: servedModel,
    aliases: [alias],
    policy: 'round_robin',
    block_tokens: 32,
    ...tokenizer,
    stats_interval_ms: 500,
    engines: engines.map(({ name, url }) => ({
      id: name,
      url,
      key: engineKey,
      role: /(?:prefill|decode|encode)$/.exec(name)?.[0] ?? 'any',
      ...each,
    })),
    ...more,
  }
  return {
    listen: `127.0.0.1:${port}`,
    // Milliseconds: a newer run has a newer configuration.
    version: Date.now(),
    // On Workers, a client's disconnect may be detected only when a heartbeat cannot be written.
    limits: kind === 'worker' ? { heartbeat_ms: 1000 } : {},
    keys: [{ name: 'lab', secret: gatewayKey, allow_overrides: true }],
    admin: { secret: adminKey },
    clusters: [{ id: 'lab', pools: [pool] }],
    ...document,
  }
}

const firstlight = [process.execPath, 'bin/firstlight.mjs']

export async function startGateway(options: GatewayOptions): Promise<RunningGateway> {
  const { kind, name, processes, note } = options
  const port = options.port ?? (await freePorts(1))[0]!
  const file = join(cacheFolder, `gateway-${name}.json`)
  writeFileSync(file, `${JSON.stringify(configFor(options, port), null, 1)}\n`)
  const command =
    kind === 'node'
      ? [...firstlight, 'serve', '--config', file]
      : [
          process.execPath,
          'packages/bench/conformance/worker-host.ts',
          join(workerFolder, 'worker.js'),
          file,
          String(port),
          vocabulary,
          ...(options.isolates === undefined ? [] : [String(options.isolates)]),
        ]
  for (const part of kind === 'node' ? parts.slice(0, 1) : parts) await (made[part] ??= make(part, processes))
  const running = processes.start({ what: `gateway ${name}`, command, folder: root })
  const gateway = { kind, url: `http://127.0.0.1:${port}`, process: running, stop: () => running.stop() }
  await up(gateway)
  note(`the gateway (${name}) is up: ${gateway.url}`)
  return gateway
}

/** Built once per run, because the sources do not change during it. */
const made: { [part in Part]?: Promise<void> } = {}

/** Requirements of gateways besides their configuration; the bundle is for Workers. */
const parts = ['vocabulary', 'bundle'] as const
type Part = (typeof parts)[number]

function make(part: Part, processes: Processes): Promise<void> {
  if (part === 'vocabulary')
    return processes.finish({
      what: 'compile the vocabulary',
      command: [...firstlight, 'vocab', 'compile', join(cacheFolder, 'models/tiny'), '--out', vocabulary],
      folder: root,
      limitS: 60,
    })
  return processes.finish({
    what: 'build the Worker',
    command: [
      process.execPath,
      'node_modules/wrangler/bin/wrangler.js',
      'deploy',
      '--dry-run',
      '--outdir',
      workerFolder,
    ],
    folder: root,
    limitS: 180,
  })
}

async function up({ url, kind, process: running }: RunningGateway): Promise<void> {
  for (let waitedMs = 0; waitedMs < 60_000; waitedMs += 250) {
    if (running.exitCode() !== null) throw new Error(`The gateway (${kind}) ended while starting:\n${running.tail(30)}`)
    const answer = await send({ url, method: 'GET', path: '/ready', limitMs: 2000 }).catch(() => null)
    if (answer?.status === 200) return
    await sleep(250)
  }
  throw new Error(`The gateway (${kind}) is not ready after 60 s:\n${running.tail(30)}`)
}
