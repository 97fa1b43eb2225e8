/** Open bookings, queued prefill and blocks in the views of gateways. */
import { ADMIN_KEY } from './document.ts'

export interface Ledger {
  readonly bookings: number
  readonly blocks: number
  readonly prefillS: number
}

/** A pool behind another gateway has no blocks and no queue. */
interface FleetView {
  readonly pools: readonly {
    readonly bookings: number | null
    readonly engines: readonly {
      readonly requests: number
      readonly active_blocks?: number
      readonly queued_prefill_s?: number
    }[]
  }[]
}

export const fetchAsAdmin = (url: string): Promise<Response> =>
  fetch(url, { headers: { authorization: `Bearer ${ADMIN_KEY}` } })

/** Sums over all current pools of this gateway. NaN if a pool could not be read. */
export async function fleetLedger(url: string): Promise<Ledger> {
  const { pools } = (await (await fetchAsAdmin(`${url}/v1/firstlight/fleet`)).json()) as FleetView
  return added(
    pools.map(({ bookings, engines }) => ({
      bookings: (bookings ?? NaN) + sum(engines, ({ requests }) => requests),
      blocks: sum(engines, (engine) => engine.active_blocks ?? 0),
      prefillS: sum(engines, (engine) => engine.queued_prefill_s ?? 0),
    })),
  )
}

export const added = (ledgers: readonly Ledger[]): Ledger => ({
  bookings: sum(ledgers, ({ bookings }) => bookings),
  blocks: sum(ledgers, ({ blocks }) => blocks),
  prefillS: sum(ledgers, ({ prefillS }) => prefillS),
})

const sum = <One>(all: readonly One[], of: (one: One) => number): number =>
  all.reduce((total, one) => total + of(one), 0)
