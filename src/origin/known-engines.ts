/** Types of engines by their URLs, as probes have detected them. */
import { engineTypeOf } from '../engines/engine-registry.ts'
import type { EngineType } from '../engines/engine-type.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { Origin } from '../ports/origin.ts'
import { MissingKvTransfers } from './disagg/missing-kv-transfers.ts'
import { MissingRoutes } from './retry/missing-routes.ts'

/** What the gateway has found out about engines. It ends with the process or isolate. */
export class KnownEngines {
  readonly missingRoutes = new MissingRoutes()
  readonly missingKvTransfers = new MissingKvTransfers()
  readonly #detected = new Map<string, { readonly type: EngineType; readonly isCurrent: boolean }>()

  /** `unknown` before the first good probe, and where another process or isolate probes. */
  typeOf(target: EngineTarget): EngineType {
    return configuredType(target) ?? this.#detected.get(target.url)?.type ?? engineTypeOf('unknown')
  }

  /** The configured type holds, whatever the engine shows. */
  isConfigured(target: EngineTarget): boolean {
    return configuredType(target) !== null
  }

  isDetected(target: EngineTarget): boolean {
    return this.isConfigured(target) || this.#detected.get(target.url)?.isCurrent === true
  }

  detected({ url }: EngineTarget, type: EngineType): void {
    this.#detected.set(url, { type, isCurrent: true })
  }

  /** An engine that failed may return as another one: its type is kept until it is detected again. */
  doubt({ url }: EngineTarget): void {
    const known = this.#detected.get(url)
    if (known !== undefined) this.#detected.set(url, { ...known, isCurrent: false })
  }
}

function configuredType(target: EngineTarget): EngineType | null {
  if (target.kind === 'gateway') return engineTypeOf('firstlight')
  if (target.kind === 'provider') return engineTypeOf('external')
  return target.type === undefined ? null : engineTypeOf(target.type)
}

const byOrigin = new WeakMap<Origin, KnownEngines>()

/** What is known about the engines of this HTTP client. */
export function knownEngines(origin: Origin): KnownEngines {
  const known = byOrigin.get(origin)
  if (known !== undefined) return known
  const added = new KnownEngines()
  byOrigin.set(origin, added)
  return added
}
