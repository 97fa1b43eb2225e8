/** Ports of an I/O thread: its own sockets; everything else is in the main thread. */
import type { Config } from '../../../config.ts'
import type { WorkerGroup } from '../../../api/worker-group.ts'
import type { BudgetUse } from '../../../core/budgets/budget.ts'
import type { IssuedKeys } from '../../../core/keys/issued-key.ts'
import type { IssuedKeyStore } from '../../../ports/issued-keys.ts'
import type { LimitAnswer } from '../../../core/limits/key-limits.ts'
import type { KibCount } from '../../../ports/kib-count.ts'
import type { Limiter } from '../../../ports/limiter.ts'
import type { Log } from '../../../ports/log.ts'
import type { StoredResponses } from '../../../ports/stored-responses.ts'
import type { Ttft } from '../../../ports/ttft.ts'
import { ConfiguredAlerts } from '../../configured-alerts.ts'
import { machinePorts } from '../machine-ports.ts'
import type { NodePorts } from '../ports.ts'
import type { ToMain, ToThread, TtftQuestion } from './messages.ts'
import type { PoolNumbers } from './pool-numbers.ts'
import { remotePools } from './remote-pools.ts'
import type { RpcChannel } from './rpc.ts'

export type MainChannel = RpcChannel<ToMain, ToThread>

/** Batching delay of records on their way to the main thread. */
const RECORDS_BATCH_MS = 100

interface ThreadPortParts {
  readonly log: Log
  readonly channel: MainChannel
  readonly numbers: PoolNumbers
  readonly bodyKib: KibCount
}

export function threadPorts(config: Config, { log, channel, numbers, bodyKib }: ThreadPortParts): NodePorts {
  const machine = machinePorts(log)
  const alerts = new ConfiguredAlerts(config, machine)
  return {
    ...machine,
    pool: remotePools(channel, numbers.of),
    shared: { storedResponses: threadStoredResponses(channel), limiter: threadLimiter(channel), bodyKib },
    alerts,
    ttft: threadTtft(channel),
    issuedKeys: threadIssuedKeys(channel),
    adopt: (next) => alerts.adopt(next),
    close: async () => machine.origin.close(),
  }
}

const threadLimiter = (channel: MainChannel): Limiter => ({
  reserve: (request) => channel.call(['limit_reserve', request]) as Promise<LimitAnswer>,
  charge: (charge) => channel.call(['limit_charge', charge]) as Promise<BudgetUse>,
  settle: (settlement) => channel.notify(['limit_settle', settlement]),
})

/** Keys on the server of the replicas, which the main thread asks. A file of keys takes their place. */
function threadIssuedKeys(channel: Pick<MainChannel, 'call'>): IssuedKeyStore {
  return {
    read: (known) => channel.call(['issued_keys', 'read', known]) as Promise<IssuedKeys | null>,
    add: (key) => channel.call(['issued_keys', 'add', key]) as Promise<boolean>,
    remove: (name) => channel.call(['issued_keys', 'remove', name]) as Promise<boolean>,
  }
}

/** The other threads, as one of them sees them. */
export function threadGroup(numbers: PoolNumbers, channel: MainChannel, startedAt: number): WorkerGroup {
  return {
    // If the main thread is gone, the process ends.
    ask: (query) => channel.call(['ask_others', query]) as Promise<readonly unknown[]>,
    prober: {
      round: async () => {},
      probeSoon: ({ cluster, pool }, { id }) =>
        channel.notify(['probe_soon', numbers.of(cluster.id, pool.model), id], true),
    },
    startedAt,
    hub: null,
  }
}

/** @testing */
export function threadTtft(channel: Pick<MainChannel, 'call'>): Ttft {
  const ask = (question: TtftQuestion, ...given: readonly unknown[]): Promise<unknown> =>
    channel.call(['ttft', question, given])
  return {
    batchMs: RECORDS_BATCH_MS,
    report: (partials) => ask('report', partials) as ReturnType<Ttft['report']>,
    find: (id) => ask('find', id) as ReturnType<Ttft['find']>,
    flush: async (batch) => void (await ask('flush', batch)),
    rollups: () => ask('rollups') as ReturnType<Ttft['rollups']>,
    counted: (limitsMs) => ask('counted', limitsMs) as ReturnType<NonNullable<Ttft['counted']>>,
    forget: async (names, before) => void (await ask('forget', names, before)),
  }
}

function threadStoredResponses(channel: MainChannel): StoredResponses {
  return {
    find: (id, tenant) =>
      channel.call(['response_find', id, tenant]) as Promise<Awaited<ReturnType<StoredResponses['find']>>>,
    keep: (id, stored) => {
      channel.notify(['response_keep', id, stored])
      // Posted before the bytes with the id are written, so that `sync` finds it.
      channel.flush()
    },
    forget: async (id) => void (await channel.call(['response_forget', id])),
  }
}
