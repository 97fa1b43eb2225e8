/**
 * Delay and CPU of bookings over a real server on this machine: one process books, others follow it. CPU is that of the
 * whole process, less what the same bookings cost in a ledger alone.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'
import { median } from '../median.ts'
import type { BenchRow } from '../result.ts'
import type { FollowerReport, SenderReport } from './carrier-process.ts'

const ENTRY = fileURLToPath(new URL('carrier-process.ts', import.meta.url))

export interface CarrierPlan {
  /** Bookings per second; each has three events. */
  readonly perS: number
  readonly seconds: number
  /** Not measured before them. */
  readonly warmS: number
  readonly followers: number
}

export interface Carrier {
  readonly row: BenchRow
  readonly headline: Readonly<Record<string, number>>
}

export async function measureCarrier({ perS, seconds, warmS, followers }: CarrierPlan): Promise<Carrier> {
  const binary = await findServer()
  if (binary === null) throw new Error('This bench needs a Valkey or Redis server.')
  const server = await ValkeyServer.start(binary)
  const children: ChildProcess[] = []
  const start = (...given: readonly (string | number)[]): ChildProcess => {
    const child = fork(ENTRY, given.map(String), { execArgv: ['--no-warnings'] })
    children.push(child)
    return child
  }
  try {
    const alone = await reportOf<SenderReport>(start('alone', '', perS, seconds, warmS, 0))
    const reading = Array.from({ length: followers }, () => start('follow', server.url, perS, seconds, warmS, 1))
    const reports = reading.map((child) => reportOf<FollowerReport>(child))
    const sending = start('send', server.url, perS, seconds, warmS, followers)
    sending.once('message', () => reading.forEach((child) => child.send('warm')))
    const sender = await reportOf<SenderReport>(sending)
    for (const child of reading) child.send('report')
    const followed = await Promise.all(reports)
    const delaysMs = followed.flatMap(({ delays }) => delays).toSorted((one, other) => one - other)
    const at = (share: number): number => delaysMs[Math.floor(share * (delaysMs.length - 1))] ?? NaN
    const headline = {
      received_p50_ms: rounded(at(0.5)),
      received_p99_ms: rounded(at(0.99)),
      foreign_us: rounded(median(followed.map(({ cpuUs, requests }) => cpuUs / requests))),
      teller_us: rounded((sender.cpuUs / sender.requests - alone.cpuUs / alone.requests) / 3),
      differences: followed.reduce((sum, { open, total }) => sum + open + Math.abs(sender.total - total), 0),
    }
    return { row: { part: 'carrier', per_s: perS, followers, ...headline }, headline }
  } finally {
    for (const child of children) child.kill()
    await server.stop()
  }
}

const rounded = (value: number): number => Math.round(value * 1000) / 1000

function reportOf<Report>(child: ChildProcess): Promise<Report> {
  return new Promise((resolve, reject) => {
    child.on('message', (report) => {
      if (report !== 'warm') resolve(report as Report)
    })
    child.once('exit', (code) => reject(new Error(`a process of the bench ended with ${code}`)))
  })
}
