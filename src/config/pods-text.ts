import type { EngineConfig } from '../config.ts'

/** Pods of a template as the operator wrote them: a label selector, or the name of an InferencePool. */
export const podsText = ({ selector, pool }: NonNullable<EngineConfig['kubernetes']>): string =>
  selector ?? `InferencePool ${pool}`
