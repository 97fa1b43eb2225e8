/** Adapters that gateways load, by server. */
import type { Admission } from '../../contract/admission.ts'
import type { AdapterLoad, Placement } from '../../contract/placement.ts'
import type { PoolConfig } from '../../contract/pool-config.ts'
import { AdapterResidents } from './adapter-residents.ts'
import type { Booking } from '../bookings.ts'
import type { EngineState } from './engine-state.ts'
import type { EngineTable } from './engine-table.ts'
import type { PoolLedger } from '../ledger.ts'

export class AdapterServers {
  readonly #byServer = new Map<string, AdapterResidents>()
  readonly #engines: EngineTable
  readonly #ledger: Pick<PoolLedger, 'adapterUnloaded'>

  constructor(engines: EngineTable, ledger: Pick<PoolLedger, 'adapterUnloaded'>) {
    this.#engines = engines
    this.#ledger = ledger
  }

  /** Gives each engine the adapters of its server, if the pool loads adapters. */
  adopt({ adapterLoading = null, reportsAdapters = false }: PoolConfig): void {
    const engines = this.#engines.all()
    for (const engine of engines) engine.offersAdapters = reportsAdapters && engine.spec.models === null
    const servers = new Set(engines.map(serverOf))
    for (const id of this.#byServer.keys()) if (adapterLoading === null || !servers.has(id)) this.#byServer.delete(id)
    for (const engine of engines) engine.residents = adapterLoading === null ? null : this.#of(serverOf(engine))
    if (adapterLoading === null) return
    for (const { residents, spec } of engines.toReversed()) residents!.shownBy = spec.id
    for (const residents of this.#byServer.values())
      residents.configure(adapterLoading.adapters, adapterLoading.maxPerEngine)
  }

  #of(server: string): AdapterResidents {
    const known = this.#byServer.get(server)
    if (known !== undefined) return known
    const added = new AdapterResidents()
    this.#byServer.set(server, added)
    return added
  }

  /** The placement with what a gateway does at the engine for the adapter. Records the request there. */
  begin(placement: Placement, { adapter }: Admission, now: number): Placement {
    if (adapter === null || placement.kind !== 'whole') return placement
    const residents = this.#engines.get(placement.engine)?.residents
    if (residents == null || !residents.manages(adapter)) return placement
    const load = residents.begin(adapter, now)
    if (load === null) return placement
    this.#unload(residents, load)
    return { ...placement, adapter: load }
  }

  /** Records a request that was placed before, or by another replica. */
  resume({ admission: { adapter }, placement, legs }: Booking, now: number): void {
    if (adapter === null) return
    const load = placement.kind === 'whole' ? (placement.adapter ?? null) : null
    for (const { engine } of legs) {
      if (engine.residents?.manages(adapter) !== true) continue
      engine.residents.resume(adapter, load, now)
      if (load !== null) this.#unload(engine.residents, load)
    }
  }

  /** What the server has cached for a copy of an adapter does not serve the next one. */
  #unload(residents: AdapterResidents, { unload }: AdapterLoad): void {
    for (const adapter of unload)
      for (const engine of this.#engines.all())
        if (engine.residents === residents) this.#ledger.adapterUnloaded(engine, adapter)
  }
}

/** Id of the server that has the engine's adapters: the engine itself, or the server of a rank. */
export const serverOf = ({ spec: { id, server } }: EngineState): string => server ?? id

/** Records the end of a request. */
export function endAdapter({ admission: { adapter }, legs }: Booking, isLacking: boolean, now: number): void {
  if (adapter === null) return
  for (const { engine } of legs) {
    engine.residents?.end(adapter, now)
    if (isLacking) engine.residents?.lacked(adapter, now)
  }
}
