/** Starts the servers that rows request, once, and stops them all. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { engineAt, ready, startEngine } from './engine.ts'
import type { RealEngine } from './engine.ts'
import type { Environment } from './environment.ts'
import { fleets, mayRunBeside, specOf } from './fleets.ts'
import type { EngineName } from './engine-spec.ts'
import type { Fleet, FleetName } from './fleets.ts'
import { startGateway } from './gateway.ts'
import type { RunningGateway } from './gateway.ts'
import { startLmcache } from './lmcache-servers.ts'
import type { LmcacheServers } from './lmcache-servers.ts'
import type { Processes } from './processes.ts'
import { openRelay } from './relay.ts'
import type { Relay } from './relay.ts'
import type { Lab } from './row.ts'

const vectorFolder = fileURLToPath(new URL('../../../test/vectors/', import.meta.url))

export interface LabOptions {
  readonly environment: Environment
  readonly processes: Processes
  note(line: string): void
  /** Engines that are already running, by name. */
  readonly attached: Readonly<Record<string, string>>
}

export function createLab({ environment, processes, note, attached }: LabOptions): Lab {
  const engines = new Map<EngineName, Promise<RealEngine>>()
  const gateways = new Map<string, { readonly fleet: FleetName; readonly running: Promise<RunningGateway> }>()
  let lmcacheServers: Promise<LmcacheServers> | null = null
  const lmcache = () => (lmcacheServers ??= startLmcache(processes, environment, note))
  const clear = async (name: EngineName) => {
    for (const [key, { fleet, running }] of gateways) {
      if (fleets[fleet].engines.every((used) => used === name || mayRunBeside(used, name))) continue
      gateways.delete(key)
      await running.then(
        (gateway) => gateway.stop(),
        () => {},
      )
    }
    for (const [other, running] of engines) {
      if (other === name || mayRunBeside(name, other)) continue
      engines.delete(other)
      await running.then(
        (engine) => engine.stop(),
        () => {},
      )
    }
    if (lmcacheServers === null || mayRunBeside(name, 'left')) return
    const servers = lmcacheServers
    lmcacheServers = null
    await servers.then(
      (running) => running.stop(),
      () => {},
    )
  }
  const start = async (name: EngineName): Promise<RealEngine> => {
    const url = attached[name]
    if (url === undefined) await clear(name)
    const started =
      url === undefined
        ? await startEngine(processes, environment, { name, spec: await specOf(name, lmcache) })
        : engineAt(name, url, null)
    await ready(started, note)
    return started
  }
  const restart = async (name: EngineName): Promise<RealEngine> => {
    const before = await engines.get(name)
    if (before === undefined) return engine(name)
    await before.stop()
    const after = before.again()
    const started = ready(after, note).then(() => after)
    engines.set(name, started)
    return started
  }
  const engine = async (name: EngineName): Promise<RealEngine> => {
    const known = await once(engines, name, () => start(name))
    return known.process !== null && known.process.exitCode() !== null ? restart(name) : known
  }
  const relays = new Map<EngineName, Promise<Relay>>()
  const relay = async (name: EngineName) => {
    const { url } = await engine(name)
    const known = await once(relays, name, () => openRelay(url))
    known.target = url
    return known
  }
  return {
    environment,
    processes,
    note,
    engine,
    restart,
    lmcache,
    relay,
    gateway: (kind, fleet = 'plain', own = '') => {
      const key = `${kind}-${fleet}${own}`
      const known = gateways.get(key)
      if (known !== undefined) return known.running
      const spec: Fleet = fleets[fleet]
      const make = async () => {
        // One after the other: each start uses a core for most of a minute.
        const targets: RealEngine[] = []
        for (const name of spec.engines) {
          const target = await engine(name)
          targets.push(name === spec.relayed ? { ...target, url: (await relay(name)).url } : target)
        }
        return startGateway({
          kind,
          name: key,
          processes,
          note,
          engines: targets,
          each: spec.each ?? {},
          document: spec.document ?? {},
          pool: (await spec.pool?.(lmcache)) ?? {},
        })
      }
      const running = make()
      gateways.set(key, { fleet, running })
      running.catch(() => gateways.delete(key))
      return running
    },
    vectorPath: (file) => join(vectorFolder, file),
    readVector: recorded,
    writeVector: (file, text) => {
      const path = join(vectorFolder, file)
      const before = recorded(file)
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, text)
      return before === null ? 'new' : before === text ? 'same' : 'changed'
    },
  }
}

function recorded(file: string): string | null {
  const path = join(vectorFolder, file)
  return existsSync(path) ? readFileSync(path, 'utf8') : null
}

function once<K, V>(made: Map<K, Promise<V>>, key: K, make: () => Promise<V>): Promise<V> {
  let value = made.get(key)
  if (value === undefined) {
    value = make()
    made.set(key, value)
  }
  return value
}
