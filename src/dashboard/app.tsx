import { useEffect, useRef, useState } from 'preact/hooks'
import { Decisions } from './decisions.tsx'
import { Engines } from './engines.tsx'
import { linesOf } from './engine-state.ts'
import { Feed, type Link } from './feed.ts'
import { saveKey, savedKey } from './gateway.ts'
import { noHistory, remembered, type History } from './history.ts'
import { Pools } from './pools.tsx'
import { Prediction } from './prediction.tsx'
import { Status } from './status.tsx'
import { Tiles } from './tiles.tsx'
import { Unlock } from './unlock.tsx'
import { Waterfall } from './waterfall.tsx'
import type { View } from './wire.ts'

interface PageState {
  readonly view: View
  /** Decisions since the page was opened: more than the last view holds. */
  readonly history: History
}

/** The whole page: one feed, one state, rendered with each view. */
export function App() {
  const [link, setLink] = useState<Link>({ state: 'connecting' })
  const [state, setState] = useState<PageState | null>(null)
  const feed = useRef<Feed | null>(null)
  useEffect(() => {
    const own = new Feed({
      onLink: (next) => setLink((last) => (last.state === next.state && next.state === 'live' ? last : next)),
      onView: (view) => setState((last) => ({ view, history: remembered(last?.history ?? noHistory, view.decisions) })),
    })
    feed.current = own
    return () => own.close()
  }, [])
  const unlock = (key: string | null) => {
    saveKey(key)
    if (key === null) setState(null)
    setLink({ state: 'connecting' })
    feed.current?.open()
  }
  return (
    <>
      <Status link={link} view={state?.view ?? null} onForget={savedKey() === null ? null : () => unlock(null)} />
      <main>
        {link.state === 'locked' ? (
          <Unlock message={link.message} onKey={unlock} />
        ) : state === null ? (
          <Waiting link={link} />
        ) : (
          <Fleet {...state} />
        )}
      </main>
    </>
  )
}

function Waiting({ link }: { readonly link: Link }) {
  return (
    <p class="empty">
      {link.state === 'lost'
        ? 'No data yet. The page updates as soon as the gateway answers.'
        : 'Waiting for the first view of the fleet …'}
    </p>
  )
}

function Fleet({ view, history: { latest, measured } }: PageState) {
  const lines = linesOf(view.pools)
  return (
    <>
      <Tiles lines={lines} decisions={measured} />
      <Pools pools={view.pools} />
      <Engines lines={lines} />
      <Waterfall decisions={measured} />
      <Prediction decisions={measured} />
      <Decisions decisions={latest} />
    </>
  )
}
