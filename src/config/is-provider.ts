import type { EngineConfig } from '../config.ts'

/** A model at a provider: each request costs money, and its server is not one's own. */
export const isProvider = ({ kind }: Pick<EngineConfig, 'kind'>): boolean => kind === 'external'
