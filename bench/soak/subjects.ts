/** The gateway under soak: on Node as a child process, and as the built Worker under workerd. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEdge } from '../../scripts/edge.ts'
import { rssBytes, startServed } from '../proxy/processes.ts'
import { plainDocument } from './document.ts'
import { fleetLedger, type Ledger } from './ledger.ts'

export interface Subject {
  /** Base URL for the next request. */
  target(): string
  /** Clients show it. null: none is asked for. */
  readonly key: string | null
  /** What should never have been said or done. */
  readonly complaints: readonly string[]
  rss(): number
  /** What is still booked, by whomever. */
  ledger(): Promise<Ledger>
  /** Changes something under way; says what. Absent: all stays as it is. */
  upheave?(random: () => number): Promise<string>
  stop(): Promise<void>
}

export async function nodeSubject(
  urls: readonly string[],
  workers: number,
  document = plainDocument(urls),
): Promise<Subject> {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-soak-'))
  const file = join(folder, 'firstlight.yaml')
  writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', workers, ...document }))
  const started = await startServed(file)
  const stop = async () => {
    started.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  return steady(`http://127.0.0.1:${started.port}`, () => rssBytes(started.pid), stop)
}

export async function workersSubject(urls: readonly string[], document = plainDocument(urls)): Promise<Subject> {
  const { url, stop } = await startEdge({ port: 0, bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(document) } })
  // workerd is a child of this process.
  return steady(url, () => rssBytes(process.pid) - process.memoryUsage.rss(), stop)
}

const steady = (url: string, rss: () => number, stop: () => Promise<void>): Subject => ({
  target: () => url,
  key: null,
  complaints: [],
  rss,
  ledger: () => fleetLedger(url),
  stop,
})
