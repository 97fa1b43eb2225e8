/** Which engines can serve which leg of a split request, as configured. */
import type { EngineConfig } from '../config.ts'

/** Whether it can serve the decode leg. */
export const canDecode = ({ role }: EngineConfig): boolean => role === 'decode' || role === 'any'

export const canPrefill = ({ role, kubernetes }: EngineConfig): boolean =>
  role === 'prefill' || (kubernetes?.prefillLabels.length ?? 0) > 0

/** Default split mode: `always` if the pool has prefill engines. */
export const defaultMode = (engines: readonly EngineConfig[]): 'always' | 'never' =>
  engines.some(canPrefill) ? 'always' : 'never'
