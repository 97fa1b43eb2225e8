/** Which engines can serve which leg of a split request, as configured. */
import type { EngineConfig } from '../config.ts'
import { podsText } from './pods-text.ts'
import type { SplitRoles } from '../core/contract/pool-config.ts'

/** Whether it can serve the decode leg. */
export const canDecode = ({ role }: EngineConfig): boolean => role === 'decode' || role === 'any'

export const canPrefill = ({ role, kubernetes }: EngineConfig): boolean =>
  role === 'prefill' || (kubernetes?.prefillLabels.length ?? 0) > 0

/** Labels of the engines of each role, as the operator wrote them: pods by selector or label, others by `labels`. */
export function configuredRoles(engines: readonly EngineConfig[]): SplitRoles {
  const roles: { prefill?: string[]; decode?: string[] } = {}
  const add = (role: 'prefill' | 'decode', labels: readonly string[]) => (roles[role] ??= []).push(...labels)
  for (const { role, labels, kubernetes } of engines) {
    if (role === 'prefill' || role === 'decode')
      add(role, kubernetes === null ? Object.entries(labels).map((pair) => pair.join('=')) : [podsText(kubernetes)])
    if (kubernetes === null) continue
    if (kubernetes.prefillLabels.length > 0) add('prefill', kubernetes.prefillLabels)
    if (kubernetes.decodeLabels.length > 0) add('decode', kubernetes.decodeLabels)
  }
  return roles
}

/** Default split mode: `always` if the pool has prefill engines. */
export const defaultMode = (engines: readonly EngineConfig[]): 'always' | 'never' =>
  engines.some(canPrefill) ? 'always' : 'never'
