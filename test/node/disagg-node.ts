import { expect, vi } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { startGateway } from '../../src/platform/node/start-gateway.ts'
import type { SplitRuntime } from '../contracts/disagg-bench.ts'

export const onNode: SplitRuntime = {
  seesLeaving: true,
  async start(document) {
    const config = parseConfig({ ...document, listen: '127.0.0.1:0' }, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true })
    const gateway = await startGateway(config, openLog('silent'))
    await probed(gateway.url, config.admin!.secret)
    return {
      url: gateway.url,
      async close() {
        await gateway.stop(AbortSignal.timeout(1_000))
      },
    }
  },
}

/** The first round of probes comes on its own time, and would take a later test's fault for every pool's. */
async function probed(url: string, secret: string): Promise<void> {
  await vi.waitFor(async () => {
    const response = await fetch(`${url}/v1/firstlight/fleet`, { headers: { authorization: `Bearer ${secret}` } })
    const { pools } = (await response.json()) as { pools: { engines: { stats: unknown }[] }[] }
    expect(pools.flatMap(({ engines }) => engines).filter(({ stats }) => stats === null)).toEqual([])
  }, { timeout: 30_000, interval: 100 })
}
