/** Names of the extension's protocol (Gateway API Inference Extension, proposal 004), and the values below them. */
import type { EngineTarget } from '../../../ports/engine-target.ts'
import { addressOf } from '../../../origin/engine-address.ts'
import { metadataOf, type ProcessingRequest } from '../grpc/processing-request.ts'
import type { StructValue } from '../grpc/struct-value.ts'

/** Header, and key of the metadata, with the chosen address. */
export const DESTINATION = 'x-gateway-destination-endpoint'

/** Namespace of the chosen address and of that which served. */
export const LB_METADATA = 'envoy.lb'

const SERVED = `${DESTINATION}-served`
const SUBSET_NAMESPACE = `${LB_METADATA}.subset_hint`
const SUBSET = `${DESTINATION}-subset`

/** Headers that name an objective, the newer name first. */
export const OBJECTIVE_HEADERS = ['x-llm-d-inference-objective', 'x-gateway-inference-objective'] as const

/** The chosen address and its fallbacks, in order. */
export const destinationText = (target: EngineTarget, fallbacks: readonly EngineTarget[]): string =>
  fallbacks.length === 0
    ? addressOf(target)
    : [...new Set([target, ...fallbacks].map((engine) => addressOf(engine)))].join(',')

/** Address that the proxy sent the request to. null: it does not report one. */
export function servedOf({ metadata }: Pick<ProcessingRequest, 'metadata'>): string | null {
  const served = metadataOf(metadata, LB_METADATA)?.[SERVED]
  return typeof served === 'string' && served !== '' ? served : null
}

/** Addresses to which the proxy restricts the choice; empty if none can be read. null: all are allowed. */
export function subsetOf({ metadata }: Pick<ProcessingRequest, 'metadata'>): ReadonlySet<string> | null {
  const hint = metadataOf(metadata, SUBSET_NAMESPACE)
  if (hint === null || !Object.hasOwn(hint, SUBSET)) return null
  return new Set(
    textsIn(hint[SUBSET]!)
      .map(addressIn)
      .filter((address) => address !== ''),
  )
}

function textsIn(value: StructValue): readonly string[] {
  if (typeof value === 'string') return value.split(',')
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

/** An IPv6 host without a port gets brackets, as in addresses. */
function addressIn(text: string): string {
  const address = text.trim().toLowerCase()
  return address.startsWith('[') || address.split(':').length <= 2 ? address : `[${address}]`
}
