import { expect, vi } from 'vitest'
import { ADMIN, type SplitRuntime } from '../../kit/split-gateway.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

export const onNode: SplitRuntime = {
  seesLeaving: true,
  async start(document) {
    const gateway = await startNodeGateway(document)
    await probed(gateway.url, ADMIN)
    return gateway
  },
}

/** Resolves after the first round of probes, which would otherwise see the faults of a later test. */
async function probed(url: string, secret: string): Promise<void> {
  await vi.waitFor(
    async () => {
      const response = await fetch(`${url}/v1/firstlight/fleet`, { headers: { authorization: `Bearer ${secret}` } })
      const { pools } = (await response.json()) as { pools: { engines: { stats: unknown }[] }[] }
      expect(pools.flatMap(({ engines }) => engines).filter(({ stats }) => stats === null)).toEqual([])
    },
    { timeout: 30_000, interval: 100 },
  )
}
