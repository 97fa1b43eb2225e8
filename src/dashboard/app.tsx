import { useEffect, useRef, useState } from 'preact/hooks'
import { Attention } from './attention.tsx'
import { type Concern, concernsOf, type Since, sinceOf } from './concerns.ts'
import { Decisions } from './decisions.tsx'
import { type EngineLine, isEdge, linesOf, needsCards } from './engine-state.ts'
import { Engines } from './engines.tsx'
import { Feed, type Link } from './feed.ts'
import { savedKey, saveKey } from './gateway.ts'
import { Keys } from './keys.tsx'
import { modelNames } from './model-names.ts'
import { Playground } from './playground.tsx'
import { Pools } from './pools.tsx'
import { Prediction } from './prediction.tsx'
import { addSample, type TrafficSample } from './rejections.ts'
import { Status } from './status.tsx'
import { Summary } from './summary.tsx'
import { addDecisions, type DecisionHistory, noHistory } from './decision-history.ts'
import { type Tab, useTab } from './tab.ts'
import { Unlock } from './unlock.tsx'
import { Verdict } from './verdict-line.tsx'
import { verdictOf } from './verdict.ts'
import { Stages } from './waterfall.tsx'
import type { View } from './wire.ts'

interface PageState {
  readonly view: View
  /** Decisions since the page was opened: more than the last view holds. */
  readonly history: DecisionHistory
  readonly lines: readonly EngineLine[]
  readonly concerns: readonly Concern[]
  readonly since: Since
  /** Totals of the last views. */
  readonly samples: readonly TrafficSample[]
}

function nextState(last: PageState | null, view: View): PageState {
  const lines = linesOf(view.pools)
  const concerns = concernsOf(view, lines)
  return {
    view,
    history: addDecisions(last?.history ?? noHistory, view.decisions),
    lines,
    concerns,
    since: sinceOf(last?.since ?? null, concerns, view.at),
    samples: addSample(last?.samples ?? [], view),
  }
}

/** The whole page: one feed, one state, rendered with each view. */
export function App() {
  const [link, setLink] = useState<Link>({ state: 'connecting' })
  const [state, setState] = useState<PageState | null>(null)
  const tab = useTab()
  const feed = useRef<Feed | null>(null)
  useEffect(() => {
    const own = new Feed({
      onLink: (next) => setLink((last) => (last.state === next.state && next.state === 'live' ? last : next)),
      onView: (view) => setState((last) => nextState(last, view)),
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
      <Status
        link={link}
        view={state?.view ?? null}
        tab={tab}
        onForget={savedKey() === null ? null : () => unlock(null)}
      />
      <main>
        {link.state === 'locked' ? (
          <Unlock message={link.message} onKey={unlock} />
        ) : state === null ? (
          <Waiting link={link} />
        ) : (
          <Page tab={tab} state={state} />
        )}
      </main>
    </>
  )
}

function Page({ tab, state }: { readonly tab: Tab; readonly state: PageState }) {
  const [clientKey, setClientKey] = useState('')
  const models = modelNames(state.view.pools)
  switch (tab) {
    case 'fleet':
      return <Fleet {...state} />
    case 'keys':
      return <Keys models={models} />
    case 'playground':
      return <Playground models={models} clientKey={clientKey} onClientKey={setClientKey} />
  }
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

function Fleet({ view, lines, concerns, since, samples, history }: PageState) {
  return (
    <>
      <Verdict verdict={verdictOf(view, lines, concerns)} concerns={concerns} />
      <Summary lines={lines} view={view} samples={samples} />
      <Attention concerns={concerns} since={since} />
      {needsCards(view.pools) && <Pools pools={view.pools} />}
      <Engines lines={lines} />
      <Stages view={view} decisions={history.measured} />
      {!isEdge(view.pools) && <Prediction errors={view.ttft_errors} decisions={history.measured} />}
      <Decisions history={history} />
    </>
  )
}
