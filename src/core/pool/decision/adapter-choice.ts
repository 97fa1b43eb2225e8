/** Engines for a request whose adapter gateways may load. */
import type { Admission } from '../../contract/admission.ts'
import { hashText } from '../../routing/placement-hash.ts'
import { rendezvous } from '../../routing/rendezvous.ts'
import { serverOf } from '../pool-engines/adapter-servers.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'
import type { Exclusion } from './exclusion.ts'

/** Whether gateways may load the adapter of the request at some engine. */
export const mayBeLoaded = (engines: readonly EngineState[], { adapter }: Admission): boolean =>
  adapter !== null && engines.some(({ residents }) => residents?.manages(adapter) === true)

/**
 * Excludes engines that lack the adapter. If all do, one server is left to load it, always the same one while it can.
 * @param usable engines that can take the request
 */
export function withoutAdapter(usable: readonly EngineState[], admission: Admission, now: number): Exclusion[] {
  const adapter = admission.adapter!
  const own = usable.filter(({ residents }) => residents !== null)
  const places = new Map(own.map((engine) => [engine, engine.residents!.placeFor(adapter, now)]))
  const lacking = own.filter((engine) => places.get(engine) !== 'here')
  // A second engine for a late answer must not load the adapter, which may be what takes the time.
  const isSecond = admission.second !== undefined
  const loads = lacking.length < own.length || isSecond ? null : loader(lacking, places, adapter)
  return lacking
    .filter((engine) => loads === null || serverOf(engine) !== loads)
    .map((engine) => ({ engine, reason: places.get(engine) === 'full' && loads === null ? 'full' : 'model' }))
}

/** Server that loads the adapter. null: none has room. */
function loader(
  engines: readonly EngineState[],
  places: ReadonlyMap<EngineState, string>,
  adapter: string,
): string | null {
  const servers = new Set(engines.filter((engine) => places.get(engine) === 'room').map(serverOf))
  const weighted = [...servers].map((id) => ({ id, weight: 1 }))
  return rendezvous(hashText(adapter), weighted)[0]?.id ?? null
}
