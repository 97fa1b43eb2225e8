/** Reload of the configuration of a running process. */
import type { Config, LimitsConfig, TtftConfig } from '../../config.ts'
import { toPoolConfig } from '../../config/normalize.ts'
import type { Gateway } from '../../gateway.ts'
import type { Ports } from '../../ports.ts'
import { statSync, type Stats } from 'node:fs'

export const stateIn = ({ mtimeMs, ino, size }: Stats): string => `${mtimeMs} ${ino} ${size}`

/**
 * Fingerprints a file for change detection. Read it before the file, so that no later change is missed. Throws if the
 * file does not exist.
 */
export const stateOf = (file: string): string => stateIn(statSync(file))

/** Settings that need a restart, with their names in the document. */
const FIXED = { listen: 'listen', workers: 'workers', replicas: 'replicas' } as const satisfies Partial<
  Record<keyof Config, string>
>
const FIXED_TTFT = { enabled: 'ttft.enabled', listen: 'ttft.listen' } as const satisfies Partial<
  Record<keyof TtftConfig, string>
>
const FIXED_LIMITS = { responseIds: 'limits.response_ids' } as const satisfies Partial<
  Record<keyof LimitsConfig, string>
>

export interface Adoptable {
  readonly config: Config
  /** Names of changed settings that need a restart. */
  readonly late: readonly string[]
}

/** Merges the settings of `next` that a process running with `running` can adopt. */
export function reloadable(running: Config, next: Config): Adoptable {
  const { loopback } = running
  const limits = { ...next.limits, ...fixedOf(running.limits, FIXED_LIMITS) }
  const ttft = { ...next.ttft, ...fixedOf(running.ttft, FIXED_TTFT) }
  return {
    config: {
      ...next,
      ...fixedOf(running, FIXED),
      loopback,
      limits,
      ttft,
      version: Math.max(next.version, running.version + 1),
    },
    late: [
      ...otherwise(running, next, FIXED),
      ...otherwise(running.ttft, next.ttft, FIXED_TTFT),
      ...otherwise(running.limits, next.limits, FIXED_LIMITS),
    ],
  }
}

type Names<Of> = Readonly<Partial<Record<keyof Of, string>>>

const partsOf = <Of extends object>(names: Names<Of>) => Object.keys(names) as (keyof Of)[]

const fixedOf = <Of extends object>(running: Of, names: Names<Of>) =>
  Object.fromEntries(partsOf(names).map((part) => [part, running[part]])) as Partial<Of>

/** Names of settings that differ. */
const otherwise = <Of extends object>(running: Of, next: Of, names: Names<Of>): string[] =>
  partsOf(names)
    .filter((part) => JSON.stringify(running[part]) !== JSON.stringify(next[part]))
    .map((part) => names[part]!)

/** Configures the pools now instead of with the next request. */
export async function configurePools({ version, clusters }: Config, ports: Pick<Ports, 'cluster'>): Promise<void> {
  const all = clusters.flatMap((cluster) =>
    cluster.pools.map((pool) => ports.cluster(cluster.id, pool.model).configure(version, toPoolConfig(cluster, pool))),
  )
  await Promise.all(all)
}

/** A sequence of gateways behind the same listeners. A request stays with the gateway that accepted it. */
export class ReloadableGateway implements Omit<Gateway, 'supersede' | 'view' | 'config'> {
  #current: Gateway
  #draining = false

  constructor(first: Gateway) {
    this.#current = first
  }

  change(next: Gateway): void {
    const before = this.#current
    this.#current = next
    before.supersede(next)
    if (this.#draining) next.drain()
  }

  get kept(): Gateway['kept'] {
    return this.#current.kept
  }

  fetch(...asked: Parameters<Gateway['fetch']>): Promise<Response> {
    return this.#current.fetch(...asked)
  }

  probe(): Promise<void> {
    return this.#current.probe()
  }

  answer(...asked: Parameters<Gateway['answer']>): Promise<unknown> {
    return this.#current.answer(...asked)
  }

  configRefused(at: number | null): void {
    this.#current.configRefused(at)
  }

  drain(): void {
    this.#draining = true
    this.#current.drain()
  }
}
