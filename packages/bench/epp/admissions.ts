/** Admissions of the same chats through the gateway and through a picker behind Envoy: they must be equal. */
import { Agent } from 'node:http'
import { parseConfig } from '../../../src/config/parse.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import { startGateway, type RunningGateway } from '../../../src/platform/node/start-gateway.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import { chat } from './chats.ts'
import { engineAt, type Site } from './site.ts'

/** In full duplex and one at a time: prompt lengths are learned from responses. */
export async function compareAdmissions(
  { engines, envoy }: Site,
  count: number,
): Promise<{ readonly compared: number; readonly differ: number }> {
  const alone = await startRecorded(engines)
  const expected = await admissionsOf(alone, Number(new URL(alone.gateway.url).port), count)
  const behind = await startRecorded(engines)
  const proxy = await envoy('full_duplex', [Number(behind.gateway.picker!.split(':')[1])])
  try {
    const placed = await admissionsOf(behind, proxy.port, count)
    return { compared: placed.length, differ: differences(expected, placed) }
  } finally {
    proxy.stop()
    for (const { gateway } of [alone, behind]) await gateway.stop(AbortSignal.timeout(1_000))
  }
}

/** Admissions as texts, without what differs by request. */
interface RecordedGateway {
  readonly gateway: RunningGateway
  readonly admissions: string[]
}

async function startRecorded(engines: readonly number[]): Promise<RecordedGateway> {
  const config = parseConfig(
    {
      listen: '127.0.0.1:0',
      epp: { listen: '127.0.0.1:0', tls: 'off' },
      clusters: [{ id: 'bench', pools: [{ model: 'fake', engines: engines.map(engineAt) }] }],
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  const admissions: string[] = []
  const middleware = (pool: PoolPort): PoolPort => recorded(pool, admissions)
  return { admissions, gateway: await startGateway(config, openLog('silent'), '.', { middleware }) }
}

function recorded(pool: PoolPort, admissions: string[]): PoolPort {
  const { local } = pool
  const record = (admission: object): void => void admissions.push(textOf(admission))
  return {
    ...pool,
    admit(admission, scope) {
      record(admission)
      return pool.admit(admission, scope)
    },
    local: local && {
      ...local,
      admit(admission) {
        record(admission)
        return local.admit(admission)
      },
    },
  }
}

/** The id is new for each request. */
const textOf = (admission: object): string =>
  JSON.stringify({ ...admission, id: null }, (_, value: unknown) =>
    ArrayBuffer.isView(value) ? Array.from(value as Uint32Array) : value,
  )

/** Admissions of chats at this port, after a first one that configures the pool. */
async function admissionsOf({ admissions }: RecordedGateway, port: number, count: number): Promise<readonly string[]> {
  await sendChats(port, 1)
  admissions.length = 0
  await sendChats(port, count)
  return admissions
}

/** Sends the chats one after the other, so that both gateways learn the same from each response. */
async function sendChats(port: number, count: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (let serial = 0; serial < count; serial++) {
    const end = await chat(port, agent, serial)
    if (end !== 'complete') throw new Error(`chat ${serial} at port ${port}: ${end}`)
  }
  agent.destroy()
}

/** Number of admissions that differ, or that one of the two lacks. */
function differences(one: readonly string[], other: readonly string[]): number {
  let differ = Math.abs(one.length - other.length)
  for (let at = 0; at < Math.min(one.length, other.length); at++) if (one[at] !== other[at]) differ++
  return differ
}
