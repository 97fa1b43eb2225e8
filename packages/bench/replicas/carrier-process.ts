/**
 * One replica of the bench: `alone` and `send` book at a steady pace, `follow` applies what the sender publishes. The
 * first seconds are not measured: at this pace V8 compiles for some 20 s, on threads that count as CPU of the process.
 */
import { MemoryResponses } from '../../../src/origin/memory-responses.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { memoryPools } from '../../../src/platform/node/memory-pools.ts'
import { Replicas } from '../../../src/platform/node/replicas/replicas.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { Lease } from '../../../src/ports/lease.ts'
import { admissionOf, Conversations, poolOf } from '../conversations.ts'

export interface SenderReport {
  readonly cpuUs: number
  /** That were measured. */
  readonly requests: number
  readonly total: number
}
export interface FollowerReport extends SenderReport {
  /** From the booking to its application, ms. */
  readonly delays: readonly number[]
  readonly open: number
}

/** Blocks of a prompt of 2,048 tokens. */
const BLOCKS = 32
const OPEN = 64
/** Messages are written at the end of a turn. A sender that is behind must not book all that is due in one turn. */
const TURN_BOOKINGS = 16
const [role = 'alone', url = '', perS = '1000', seconds = '2', warmS = '0', others = '0'] = process.argv.slice(2)

const pool = poolOf(8, 100_000, 'least_loaded')
const { pool: ledger } = memoryPools({ source: () => ({ version: 1, pool }) })
const delays: number[] = []
let applied = 0

/** The clock is the same for all processes of a machine. */
const nowNs = (): bigint => process.hrtime.bigint()
const nothing = (): void => undefined
const log = { debug: nothing, info: nothing, warn: console.error, error: console.error }

/** Measures when a booking of the sender arrives in the ledger. */
const measured = ({ local, ...rest }: PoolPort): PoolPort => ({
  ...rest,
  local: local && {
    ...local,
    apply(event) {
      if (event[0] === 'book') {
        applied += 1
        delays.push(Number(nowNs() - BigInt(event[1].admission.id)) / 1e6)
      }
      return local.apply(event)
    },
  },
})

const inner = ledger('bench', 'm')
const observed = role === 'follow' ? measured(inner) : inner
const replicas =
  url === ''
    ? null
    : new Replicas(
        { url, cluster: false, prefix: 'bench', leaseMs: 15_000 },
        { log, now: Date.now, pool: () => pool, storedResponses: new MemoryResponses(10) },
      )
const cluster = replicas?.replicatedPool(observed, ['bench', 'm']) ?? inner

if (role === 'follow') await follow()
else await send()

async function follow(): Promise<void> {
  await joined()
  await nextMessage()
  // Idle work, such as heartbeats, is far below the noise.
  const before = process.cpuUsage()
  const warm = applied
  delays.length = 0
  await nextMessage()
  await settled()
  const cpuUs = usedUs(before)
  const { bookings } = await inner.digest()
  const report: FollowerReport = { cpuUs, requests: applied - warm, total: applied, delays, open: bookings }
  process.send!(report)
}

function nextMessage(): Promise<unknown> {
  return new Promise((resolve) => process.once('message', resolve))
}

function usedUs(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return user + system
}

async function send(): Promise<void> {
  if (replicas !== null) await joined()
  const talks = new Conversations(BLOCKS, 100_000)
  const warm = Math.round(Number(perS) * Number(warmS))
  const total = warm + Math.round(Number(perS) * Number(seconds))
  let before = process.cpuUsage()
  const startedAt = performance.now()
  const open: Lease[] = []
  for (let sent = 0; sent < total;) {
    const due = Math.min(total, Math.floor(((performance.now() - startedAt) / 1000) * Number(perS)))
    for (; sent < due; sent++) {
      if (sent === warm) {
        before = process.cpuUsage()
        process.send!('warm')
      }
      await step(open, admissionOf(talks.next()))
      if (sent % TURN_BOOKINGS === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    // Between bookings the process sleeps, so that CPU is that of bookings.
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  for (const lease of open) await lease.release(endedAs('complete'))
  await settled()
  process.send!({ cpuUs: usedUs(before), requests: total - warm, total } satisfies SenderReport)
}

async function step(open: Lease[], request: Admission): Promise<void> {
  const admitted = await cluster.admit({ ...request, id: String(nowNs()) })
  if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
  await admitted.lease.firstToken({ ttft: 10 })
  open.push(admitted.lease)
  if (open.length > OPEN) await open.shift()!.release(endedAs('complete'))
}

async function joined(): Promise<void> {
  while (replicas!.digests.filter(({ state }) => state === 'following').length < Number(others))
    await new Promise((resolve) => setTimeout(resolve, 10))
}

function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 500))
}
