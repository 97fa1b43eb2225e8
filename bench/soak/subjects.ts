/** The gateway under soak: on Node as a child process, and as the built Worker under workerd. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEdge } from '../../scripts/edge.ts'
import { rssBytes, startServed } from '../proxy/processes.ts'

export const ADMIN_KEY = 'soak-admin-key-of-no-use-elsewhere'

export interface Subject {
  readonly url: string
  rss(): number
  stop(): Promise<void>
}

function document(urls: readonly string[]): object {
  return {
    open: true,
    admin: { secret: ADMIN_KEY },
    // Milliseconds: a newer run is a newer configuration.
    version: Date.now(),
    log: { level: 'silent' },
    // Ends are counted.
    ttft: { enabled: true },
    clusters: [
      {
        id: 'soak',
        pools: [
          {
            model: 'sim',
            stats_interval_ms: 1000,
            limits: { first_byte_ms: 4000, idle_ms: 2000, native_ms: 10_000 },
            engines: urls.map((url, i) => ({ id: `e${i}`, url })),
          },
        ],
      },
    ],
  }
}

export async function nodeSubject(urls: readonly string[], workers: number): Promise<Subject> {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-soak-'))
  const file = join(folder, 'firstlight.yaml')
  writeFileSync(file, JSON.stringify({ listen: '127.0.0.1:0', workers, ...document(urls) }))
  const started = await startServed(file)
  return {
    url: `http://127.0.0.1:${started.port}`,
    rss: () => rssBytes(started.pid),
    stop: async () => {
      started.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export async function workersSubject(urls: readonly string[]): Promise<Subject> {
  const { url, stop } = await startEdge({ port: 0, bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(document(urls)) } })
  // workerd is a child of this process.
  return { url, stop, rss: () => rssBytes(process.pid) - process.memoryUsage.rss() }
}
