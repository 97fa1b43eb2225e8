/** A new configuration for a process that runs. */
import type { Config } from '../../config.ts'
import { toPoolConfig } from '../../config/pool.ts'
import type { Gateway } from '../../gateway.ts'
import type { Ports } from '../../ports.ts'

/** What a process does for as long as it runs as it was started, by its name in the document. */
const FIXED: Readonly<Record<string, (config: Config) => unknown>> = {
  listen: ({ listen }) => listen,
  workers: ({ threads }) => threads,
  log: ({ log }) => log,
  ttft: ({ ttft }) => ttft,
  traces: ({ traces }) => traces,
  record: ({ record }) => record,
  'limits.drain_ms': ({ limits }) => limits.drainMs,
  'limits.response_ids': ({ limits }) => limits.responseIds,
}

export interface Adoptable {
  readonly config: Config
  /** Parts of the document that count from the next start on. */
  readonly late: readonly string[]
}

/** As much of `next` as a process can take that runs with `running`. */
export function adoptable(running: Config, next: Config): Adoptable {
  const { listen, threads, log, ttft, traces, record, loopback } = running
  const { drainMs, responseIds } = running.limits
  const limits = { ...next.limits, drainMs, responseIds }
  return {
    config: { ...next, listen, threads, log, ttft, traces, record, loopback, limits, version: Math.max(next.version, running.version + 1) },
    late: Object.keys(FIXED).filter((part) => JSON.stringify(FIXED[part]!(running)) !== JSON.stringify(FIXED[part]!(next))),
  }
}

/** The pools' books learn of it now, not with the next request. */
export async function configurePools({ version, clusters }: Config, ports: Pick<Ports, 'cluster'>): Promise<void> {
  const all = clusters.flatMap((cluster) => cluster.pools.map((pool) => ports.cluster(cluster.id, pool.model).configure(version, toPoolConfig(cluster, pool))))
  await Promise.all(all)
}

/** One gateway after the other behind the same listeners: a request stays with the one that took it in. */
export class ChangingGateway implements Gateway {
  #current: Gateway
  #draining = false

  constructor(first: Gateway) {
    this.#current = first
  }

  change(next: Gateway): void {
    const before = this.#current
    this.#current = next
    before.retire()
    if (this.#draining) next.drain()
  }

  get posts(): Gateway['posts'] {
    return this.#current.posts
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

  drain(): void {
    this.#draining = true
    this.#current.drain()
  }

  retire(): void {
    this.#current.retire()
  }
}
