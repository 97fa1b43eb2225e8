/** Starts what rows ask for, once, and stops it all. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { engineAt, nixl, ready, startEngine } from './engine.ts'
import type { RealEngine } from './engine.ts'
import type { Environment } from './environment.ts'
import { startGateway } from './gateway.ts'
import type { RunningGateway } from './gateway.ts'
import type { Processes } from './processes.ts'
import type { EngineName, Lab } from './row.ts'

const vectorFolder = fileURLToPath(new URL('../../test/vectors/', import.meta.url))

export interface LabOptions {
  readonly environment: Environment
  readonly processes: Processes
  note(line: string): void
  /** Engines that run already, by name. */
  readonly attached: Readonly<Record<string, string>>
}

export function createLab({ environment, processes, note, attached }: LabOptions): Lab {
  const engines = new Map<string, Promise<RealEngine>>()
  const gateways = new Map<string, Promise<RunningGateway>>()
  const engine = (name: EngineName) => once(engines, name, async () => {
    const url = attached[name]
    // Its worker keeps a core busy, even idle: it comes late and nothing runs beside it that need not.
    if (name === 'nixl' && url === undefined) await (await engines.get('b'))?.stop()
    const started = url === undefined ? await startEngine(processes, environment, { name, ...(name === 'nixl' ? await nixl() : {}) }) : engineAt(name, url, null)
    await ready(started, note)
    return started
  })
  return {
    environment,
    processes,
    note,
    engine,
    gateway: (kind, other = 'b') => once(gateways, `${kind} ${other}`, async () => {
      // One after the other: each start takes a core for most of a minute.
      const targets = [await engine('a'), await engine(other)]
      return startGateway({ kind, processes, note, engines: targets })
    }),
    vectorPath: (file) => join(vectorFolder, file),
    writeVector: (file, text) => {
      const path = join(vectorFolder, file)
      const before = existsSync(path) ? readFileSync(path, 'utf8') : null
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, text)
      return before === null ? 'new' : before === text ? 'same' : 'changed'
    },
  }
}

function once<K, V>(made: Map<K, Promise<V>>, key: K, make: () => Promise<V>): Promise<V> {
  let value = made.get(key)
  if (value === undefined) {
    value = make()
    made.set(key, value)
  }
  return value
}
