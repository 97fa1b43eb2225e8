import { isGateway, linesOf } from './engine-state.ts'
import { plural } from './format.ts'
import { regionText } from './region.ts'
import type { Pool } from './wire.ts'

/** One card per pool: its models, and a dot per engine. */
export function Pools({ pools }: { readonly pools: readonly Pool[] }) {
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
          The state object of this pool cannot be reached. Search the gateway log for digest_unreachable.
        </p>
      )}
    </li>
  )
}
