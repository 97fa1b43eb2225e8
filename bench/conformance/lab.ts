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
import type { EngineName, Lab, Pair } from './row.ts'

const vectorFolder = fileURLToPath(new URL('../../test/vectors/', import.meta.url))

export interface LabOptions {
  readonly environment: Environment
  readonly processes: Processes
  note(line: string): void
  /** Engines that run already, by name. */
  readonly attached: Readonly<Record<string, string>>
}

/** Who may run beside whom. An idle NIXL worker keeps half a core busy, so nothing runs beside it that need not. */
const beside: Readonly<Record<EngineName, readonly EngineName[]>> = { a: ['b', 'nixl'], b: ['a'], nixl: ['a'], prefill: ['decode'], decode: ['prefill'] }
const pairs: Readonly<Record<Pair, readonly [EngineName, EngineName]>> = { plain: ['a', 'b'], nixl: ['a', 'nixl'], split: ['prefill', 'decode'] }
const withNixl: readonly EngineName[] = ['nixl', 'prefill', 'decode']

export function createLab({ environment, processes, note, attached }: LabOptions): Lab {
  const engines = new Map<EngineName, Promise<RealEngine>>()
  const gateways = new Map<string, Promise<RunningGateway>>()
  const clear = async (name: EngineName) => {
    for (const [other, running] of engines) {
      if (other === name || beside[name].includes(other)) continue
      engines.delete(other)
      await running.then((engine) => engine.stop(), () => {})
    }
    for (const [key, running] of gateways) {
      if (pairs[key.split(' ')[1] as Pair].every((used) => used === name || engines.has(used))) continue
      gateways.delete(key)
      await running.then((gateway) => gateway.stop(), () => {})
    }
  }
  const engine = (name: EngineName) => once(engines, name, async () => {
    const url = attached[name]
    if (url === undefined) await clear(name)
    const started = url === undefined ? await startEngine(processes, environment, { name, ...(withNixl.includes(name) ? await nixl() : {}) }) : engineAt(name, url, null)
    await ready(started, note)
    return started
  })
  return {
    environment,
    processes,
    note,
    engine,
    gateway: async (kind, pair = 'plain') => {
      // One after the other: each start takes a core for most of a minute.
      const targets = [await engine(pairs[pair][0]), await engine(pairs[pair][1])]
      return once(gateways, `${kind} ${pair}`, () => startGateway({ kind, processes, note, engines: targets }))
    },
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
