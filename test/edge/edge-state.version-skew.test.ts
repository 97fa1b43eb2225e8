import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildWorker } from '../../scripts/build-worker.ts'
import { until } from '../wait.ts'
import { admin, chat, type Isolates, startIsolates } from './isolates.ts'

interface Fleet {
  readonly shared?: boolean
  readonly pools: readonly { readonly engines: readonly { readonly requests_total: number }[] }[]
}

let older = ''
let folder = ''

beforeAll(async () => {
  folder = mkdtempSync(`${tmpdir()}/firstlight-older-`)
  older = await buildWorker(folder, fileURLToPath(new URL('../workers/older/worker.ts', import.meta.url)))
})

afterAll(() => rmSync(folder, { recursive: true }))

/** Starts three isolates; those named in `old`, or `objects`, run the older bundle. */
const start = (old: readonly string[]) =>
  startIsolates({ isolates: 3, regions: ['a'], scriptOf: (name) => (old.includes(name) ? older : undefined) })

async function send(edge: Isolates, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const { status, headers } = await chat(edge.urls[n % edge.urls.length]!, `question ${n}`)
    expect(status).toBe(200)
    expect(headers.get('x-firstlight-decision')).not.toContain('fallback')
  }
}

const fleetOf = async (url: string) => (await admin<Fleet>(url, '/v1/firstlight/fleet'))!
const totalOf = ({ pools }: Fleet) => pools[0]!.engines[0]!.requests_total

describe('during a deployment', () => {
  it('newer isolates serve all requests with an older object, and views report their own figures', async () => {
    const edge = await start(['objects'])
    try {
      await send(edge, 9)
      for (const url of edge.urls) {
        const fleet = await fleetOf(url)
        expect([fleet.shared, totalOf(fleet)]).toEqual([false, 3])
      }
      await send(edge, 3)
    } finally {
      await edge.close()
    }
  })

  it('an older isolate serves requests beside newer ones, whose sums are right', async () => {
    const edge = await start(['iso1'])
    try {
      await send(edge, 9)
      for (const url of [edge.urls[0]!, edge.urls[2]!])
        expect(await until(async () => totalOf(await fleetOf(url)) === 6)).toBe(true)
      expect(totalOf(await fleetOf(edge.urls[1]!))).toBe(3)
    } finally {
      await edge.close()
    }
  })

  it('older isolates serve all requests beside a newer object', async () => {
    const edge = await start(['iso0', 'iso1', 'iso2'])
    try {
      await send(edge, 9)
      for (const url of edge.urls) expect(totalOf(await fleetOf(url))).toBe(3)
    } finally {
      await edge.close()
    }
  })
})
