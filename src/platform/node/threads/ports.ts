/** The outside of an I/O thread: its own sockets, and for the rest the main thread. */
import type { Shared } from '../../../api/fellows.ts'
import type { Holdings } from '../../../api/held.ts'
import type { Config } from '../../../config.ts'
import type { Log, Ttft } from '../../../ports.ts'
import { machinePorts, type NodePorts } from '../ports.ts'
import { threadClusters } from './books-edge.ts'
import type { Line } from './line.ts'
import type { ToMain, ToThread, TtftQuestion } from './words.ts'

export type LineToMain = Line<ToMain, ToThread>

/** Records wait this long for company on their way to the main thread. */
const RECORDS_MS = 100

/** Pools of a configuration in the order that both ends count them in. */
export function poolNames(config: Pick<Config, 'clusters'>): readonly (readonly [clusterId: string, pool: string])[] {
  return config.clusters.flatMap(({ id, pools }) => pools.map(({ model }) => [id, model] as const))
}

export function threadPorts(config: Config, log: Log, line: LineToMain): NodePorts {
  const machine = machinePorts(log)
  return {
    ...machine,
    cluster: threadClusters(line, numbering(config)),
    ttft: threadTtft(line),
    close: () => machine.origin.close(),
  }
}

/** What the threads have in common, as one of them sees it. */
export function sharedByThreads(config: Config, line: LineToMain, startedAt: number): Shared {
  const numberOf = numbering(config)
  return {
    // Were the main thread gone, nobody would be left to ask.
    ask: (question) => line.ask(['fellows', question]) as Promise<readonly unknown[]>,
    held: threadHoldings(line),
    prober: {
      round: async () => {},
      suspect: ({ cluster, pool }, { id }) => line.tell(['suspect', numberOf(cluster.id, pool.model), id], true),
    },
    startedAt,
  }
}

function numbering(config: Config): (clusterId: string, pool: string) => number {
  const numbers = new Map(poolNames(config).map((names, number) => [JSON.stringify(names), number]))
  return (...names) => {
    const number = numbers.get(JSON.stringify(names))
    if (number === undefined) throw new Error(`cluster ${names[0]} has no pool ${names[1]}`)
    return number
  }
}

export function threadTtft(line: Pick<LineToMain, 'ask'>): Ttft {
  const ask = (question: TtftQuestion, ...given: readonly unknown[]): Promise<unknown> => line.ask(['ttft', question, given])
  return {
    batchMs: RECORDS_MS,
    report: (partials) => ask('report', partials) as ReturnType<Ttft['report']>,
    find: (id) => ask('find', id) as ReturnType<Ttft['find']>,
    flush: async (batch) => void (await ask('flush', batch)),
    rollups: () => ask('rollups') as ReturnType<Ttft['rollups']>,
    forget: async (names, before) => void (await ask('forget', names, before)),
  }
}

function threadHoldings(line: LineToMain): Holdings {
  return {
    find: (id, tenant) => line.ask(['held_find', id, tenant]) as Promise<Awaited<ReturnType<Holdings['find']>>>,
    keep: (id, holding) => {
      line.tell(['held_keep', id, holding])
      // At once: its client may name it on another connection as soon as it has read the answer.
      line.flush()
    },
    forget: (id) => line.tell(['held_forget', id]),
  }
}
