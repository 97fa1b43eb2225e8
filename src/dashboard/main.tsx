import './language.ts'
import { render } from 'preact'
import './style.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Decisions } from './decisions.tsx'
import { Engines } from './engines.tsx'
import { type Concern, concernsOf, type Since, sinceOf, verdictOf } from './concerns.ts'
import { linesOf, type Line, isGateway, needsCards, regionText } from './engine-state.ts'
import { saveKey, savedKey, Feed, type Link } from './gateway.ts'
import { Prediction } from './prediction.tsx'
import { Attention, Summary, Verdict } from './summary.tsx'
import { noHistory, remembered, remarked, type History, type Mark } from './trend.ts'
import { Stages } from './waterfall.tsx'
import type { View, Pool } from './wire.ts'
import { plural } from './format.ts'

interface PageState {
  readonly view: View
  /** Decisions since the page was opened: more than the last view holds. */
  readonly history: History
  readonly lines: readonly Line[]
  readonly concerns: readonly Concern[]
  readonly since: Since
  /** Totals of the last views. */
  readonly marks: readonly Mark[]
}

function following(last: PageState | null, view: View): PageState {
  const lines = linesOf(view.pools)
  const concerns = concernsOf(view, lines)
  return {
    view,
    history: remembered(last?.history ?? noHistory, view.decisions),
    lines,
    concerns,
    since: sinceOf(last?.since ?? null, concerns, view.at),
    marks: remarked(last?.marks ?? [], view),
  }
}

/** The whole page: one feed, one state, rendered with each view. */
export function App() {
  const [link, setLink] = useState<Link>({ state: 'connecting' })
  const [state, setState] = useState<PageState | null>(null)
  const feed = useRef<Feed | null>(null)
  useEffect(() => {
    const own = new Feed({
      onLink: (next) => setLink((last) => (last.state === next.state && next.state === 'live' ? last : next)),
      onView: (view) => setState((last) => following(last, view)),
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

function Fleet({ view, lines, concerns, since, marks, history }: PageState) {
  return (
    <>
      <Verdict verdict={verdictOf(view, lines, concerns)} concerns={concerns} />
      <Summary lines={lines} view={view} marks={marks} />
      <Attention concerns={concerns} since={since} />
      {needsCards(view.pools) && <Pools pools={view.pools} />}
      <Engines lines={lines} />
      <Stages view={view} decisions={history.measured} />
      <Prediction errors={view.ttft_errors} decisions={history.measured} />
      <Decisions history={history} />
    </>
  )
}

interface UnlockProps {
  readonly message: string
  readonly onKey: (key: string) => void
}

/** Asks for the admin key. Shows the gateway's message about the last one. */
function Unlock({ message, onKey }: UnlockProps) {
  const [key, setKey] = useState('')
  const wasWrong = savedKey() !== null
  return (
    <form
      class="unlock"
      onSubmit={(event) => {
        event.preventDefault()
        if (key.trim() !== '') onKey(key.trim())
      }}
    >
      <h2>Admin key</h2>
      {wasWrong && (
        <p class="wrong" role="alert" id="wrong">
          {message}
        </p>
      )}
      <p>
        It is <code>admin.secret</code> in the gateway’s configuration. It stays in this tab and is gone when you close
        it.
      </p>
      <label for="key">Admin key</label>
      <input
        id="key"
        type="password"
        autocomplete="off"
        spellcheck={false}
        required
        autofocus
        value={key}
        aria-invalid={wasWrong}
        aria-describedby={wasWrong ? 'wrong' : undefined}
        onInput={(event) => setKey(event.currentTarget.value)}
      />
      <button type="submit">Show the fleet</button>
    </form>
  )
}

const WORDS: Readonly<Record<Link['state'], string>> = {
  connecting: 'connecting',
  live: 'live',
  paused: 'paused',
  lost: 'not connected',
  locked: 'locked',
}

interface StatusProps {
  readonly link: Link
  readonly view: View | null
  /** null: no stored key. */
  readonly onForget: (() => void) | null
}

const replicasOf = (view: View | null, expected: 'following' | 'away') =>
  (view?.replicas ?? []).filter(({ state }) => state === expected)
const replicaCount = (view: View): number => replicasOf(view, 'following').length

/** Page header: name of the fleet, and whether the data is current. */
function Status({ link, view, onForget }: StatusProps) {
  const away = replicasOf(view, 'away')
    .map(({ host }) => host)
    .join(', ')
  return (
    <header>
      <div class="title">
        <h1>Firstlight</h1>
        <span class={`link ${link.state}`} role="status">
          {WORDS[link.state]}
        </span>
      </div>
      <nav aria-label="Gateway">
        {view !== null && (
          <span class="dim">
            {view.version} · configuration {view.config_version}
            {!needsCards(view.pools) && ` · ${view.pools[0]!.model} by ${view.pools[0]!.policy}`}
            {replicaCount(view) > 0 && ` · ${replicaCount(view)} other gateway${replicaCount(view) === 1 ? '' : 's'}`}
          </span>
        )}
        <a href=".">Welcome</a>
        {onForget !== null && (
          <button type="button" class="quiet" onClick={onForget}>
            Forget key
          </button>
        )}
      </nav>
      {link.state === 'lost' && (
        <p class="notice" role="alert">
          {link.message} Trying again …{view !== null && ' The data shown is the last received.'}
        </p>
      )}
      {away !== '' && (
        <p class="notice" role="alert">
          Not heard: {away}. That gateway and this one choose without knowing of each other’s requests.
        </p>
      )}
      {view?.draining === true && (
        <p class="notice" role="alert">
          This gateway is shutting down: it takes no new requests.
        </p>
      )}
    </header>
  )
}

/** One card per pool: its models, and a dot per engine. */
function Pools({ pools }: { readonly pools: readonly Pool[] }) {
  return (
    <section aria-labelledby="clusters">
      <h2 id="clusters">Clusters</h2>
      {pools.length === 0 ? (
        <p class="empty">
          No pool is configured. Add one under <code>clusters</code> and start the gateway again.
        </p>
      ) : (
        <ul class="pools">
          {pools.map((pool) => (
            <PoolCard key={`${pool.cluster} ${pool.model}`} pool={pool} />
          ))}
        </ul>
      )}
    </section>
  )
}

function PoolCard({ pool }: { readonly pool: Pool }) {
  const lines = linesOf([pool])
  const up = lines.filter(({ state }) => state === 'up').length
  return (
    <li class="pool">
      <h3>
        {pool.cluster}
        {pool.region !== null && <span class="dim"> · {pool.region}</span>}
      </h3>
      <p class="model">{pool.model}</p>
      <p class="dots" role="img" aria-label={`${up} of ${plural(lines.length, 'engine')} up`}>
        {lines.map(({ engine, state, text }) => (
          <i key={engine.id} class={`dot ${state}`} title={`${engine.id}: ${text}`} />
        ))}
      </p>
      <p class="dim">
        {isGateway(pool)
          ? ['another gateway', ...regionText(pool)].join(' · ')
          : `${up} of ${plural(lines.length, 'engine')} up · ${pool.policy}`}
        {pool.bookings !== null && ` · ${plural(pool.bookings, 'booking')}${isGateway(pool) ? ' of ours' : ''}`}
      </p>
      {!pool.reachable && (
        <p class="wrong">
          Its object cannot be reached. Requests fall back to what is known; look into the gateway’s log.
        </p>
      )}
    </li>
  )
}

const root = document.getElementById('app')!
root.replaceChildren()
render(<App />, root)
