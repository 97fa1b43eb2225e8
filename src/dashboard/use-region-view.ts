import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { call } from './gateway.ts'
import { type FleetPool, nextRegionView, type RegionView, unread } from './region-view.ts'
import type { Pool } from './wire.ts'

const EVERY_MS = 5_000

/** A hung gateway closes no connection, so requests have a time limit. */
const ANSWER_MS = 10_000

/** Reads the engines of a region every few seconds while they are shown. `reload`: at once. */
export function useRegionView({ cluster, model }: Pick<Pool, 'cluster' | 'model'>): {
  readonly view: RegionView
  readonly reload: () => Promise<void>
} {
  const [view, setView] = useState(unread)
  const started = useRef(0)
  const shown = useRef(0)
  const reload = useCallback(async () => {
    const own = ++started.current
    const pools = await readPools()
    // An answer that was overtaken is older than what is shown.
    if (own < shown.current) return
    shown.current = own
    setView((last) => nextRegionView(last, { pools, of: { cluster, model }, at: Date.now() }))
  }, [cluster, model])
  useEffect(() => {
    void reload()
    const timer = setInterval(() => {
      if (!document.hidden) void reload()
    }, EVERY_MS)
    return () => {
      clearInterval(timer)
      shown.current = Infinity
    }
  }, [reload])
  return { view, reload }
}

/** null: this gateway did not answer. */
async function readPools(): Promise<readonly FleetPool[] | null> {
  try {
    const answer = await call('v1/firstlight/fleet', { signal: AbortSignal.timeout(ANSWER_MS) })
    return ((await answer.json()) as { readonly pools: readonly FleetPool[] }).pools
  } catch {
    return null
  }
}
