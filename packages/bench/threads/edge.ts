/** A thread that only books: a given number of concurrent requests for a given time. */
import { parentPort, workerData } from 'node:worker_threads'
import { PAYLOAD_VERSION } from '../../../src/core/contract/payload-version.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { Outcome } from '../../../src/core/contract/outcome.ts'
import { remotePools } from '../../../src/platform/node/threads/remote-pools.ts'
import { RpcChannel } from '../../../src/platform/node/threads/rpc.ts'
import type { PoolMessage } from '../../../src/platform/node/threads/messages.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'

export interface EdgePlan {
  readonly inFlight: number
  readonly ms: number
  readonly blocks: number
  /** Milliseconds between admission and first token, and again until the end, as with an engine. */
  readonly holdMs: number
}

export interface EdgeResult {
  readonly requests: number
  readonly cpuUs: number
  readonly admitMs: readonly number[]
}

export const OUTCOME: Outcome = {
  version: PAYLOAD_VERSION,
  result: 'complete',
  failure: null,
  status: 200,
  usage: { promptTokens: 1000, completionTokens: 16, cachedTokens: 0 },
  outputEvents: 16,
  stages: { edge: 0.1, tokens: 0.1, admit: 0.1, first_byte: 40, ttft: 41 },
}

export function admissionOf(id: string, blocks: number): Admission {
  const lanes = new Uint32Array(blocks * 2)
  // A shared head and its own tail, as in a conversation.
  for (let at = 0; at < lanes.length; at++)
    lanes[at] = at < lanes.length / 2 ? at * 2654435761 : Math.random() * 2 ** 32
  return {
    version: PAYLOAD_VERSION,
    id,
    configVersion: 1,
    model: 'm',
    adapter: null,
    promptTokens: blocks * 64 + 10,
    tokenSource: 'bytes',
    blocks: lanes,
    session: null,
    priority: 0,
    expectedOutputTokens: null,
    tenant: 'open',
    overrides: null,
    hints: null,
    unsplittable: null,
    encodeItems: 0,
    attempt: 0,
    avoid: [],
  }
}

/** All bookings of one request. */
export async function holdOne(cluster: PoolPort, admission: Admission, holdMs: number): Promise<number> {
  const from = performance.now()
  const admitted = await cluster.admit(admission)
  const tookMs = performance.now() - from
  if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
  if (holdMs > 0) await new Promise((resolve) => setTimeout(resolve, holdMs))
  await admitted.lease.firstToken(OUTCOME.stages)
  if (holdMs > 0) await new Promise((resolve) => setTimeout(resolve, holdMs))
  await admitted.lease.release(OUTCOME)
  return tookMs
}

export async function drive(
  cluster: PoolPort,
  name: string,
  { inFlight, ms, blocks, holdMs }: EdgePlan,
): Promise<EdgeResult> {
  const admissions = Array.from({ length: 512 }, () => admissionOf('', blocks))
  const admitMs: number[] = []
  let requests = 0
  const cpu = process.threadCpuUsage()
  const until = performance.now() + ms
  const client = async (): Promise<void> => {
    while (performance.now() < until) {
      requests++
      const tookMs = await holdOne(
        cluster,
        { ...admissions[requests % admissions.length]!, id: `${name}-${requests}` },
        holdMs,
      )
      if (admitMs.length < 200_000) admitMs.push(tookMs)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, client))
  const { user, system } = process.threadCpuUsage(cpu)
  return { requests, cpuUs: user + system, admitMs }
}

if (parentPort !== null && workerData?.bench === 'edge') {
  const port = parentPort
  const line = new RpcChannel<PoolMessage, never>(port, () => undefined)
  const cluster = remotePools(line, () => 0)('bench', 'm')
  let runs = 0
  port.on('message', async (message: readonly unknown[] | { readonly plan: EdgePlan }) => {
    if ('plan' in message)
      port.postMessage({ result: await drive(cluster, `${workerData.number}-${runs++}`, message.plan) })
    else line.receive(message)
  })
}
