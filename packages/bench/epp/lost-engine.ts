/** An engine of the site that dies under load: requests that it served are lost, and no booking stays. */
import { bookingsLeft } from './bookings.ts'
import { type ChatCounts, runChats } from './chats.ts'
import type { Site } from './site.ts'

interface LostEngineResult {
  /** While the engine dies. */
  readonly during: ChatCounts
  /** Once its failures are known. */
  readonly after: ChatCounts
  readonly leaked: number
}

/** Ends one engine of the site for good. */
export async function runLostEngine(site: Site, requests: number): Promise<LostEngineResult> {
  const envoy = await site.envoy('full_duplex')
  const plan = { port: envoy.port, requests, connections: 16, abortEvery: 50, pace: [20, 5] } as const
  let ended = 0
  const onEnd = (): void => {
    if (++ended === requests >> 2) site.loseEngine()
  }
  const during = await runChats({ ...plan, onEnd })
  const after = await runChats(plan)
  envoy.stop()
  return { during, after, leaked: await bookingsLeft(site.picker) }
}
