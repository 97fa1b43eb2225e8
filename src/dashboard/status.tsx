import { needsCards } from './engine-state.ts'
import type { Link } from './feed.ts'
import { type Tab, TABS } from './tab.ts'
import type { View } from './wire.ts'

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
  readonly tab: Tab
  /** null: no stored key. */
  readonly onForget: (() => void) | null
}

const replicasOf = (view: View | null, expected: 'following' | 'away') =>
  (view?.replicas ?? []).filter(({ state }) => state === expected)

const replicaCount = (view: View): number => replicasOf(view, 'following').length

/** Page header: name of the fleet, and whether the data is current. */
export function Status({ link, view, tab, onForget }: StatusProps) {
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
        {TABS.map(([name, title]) => (
          <a key={name} href={`#${name}`} aria-current={name === tab ? 'page' : undefined}>
            {title}
          </a>
        ))}
        <a href=".">Welcome</a>
        {onForget !== null && (
          <button type="button" class="quiet" onClick={onForget}>
            Forget key
          </button>
        )}
      </nav>
      {link.state === 'lost' && (
        <p class="notice" role="alert">
          {link.message} Retrying …{view !== null && ' The data shown is the last received.'}
        </p>
      )}
      {away !== '' && (
        <p class="notice" role="alert">
          Replica away: {away}. Both gateways place requests without the bookings of the other.
        </p>
      )}
      {view?.draining === true && (
        <p class="notice" role="alert">
          This gateway is shutting down: it accepts no new requests.
        </p>
      )}
    </header>
  )
}
