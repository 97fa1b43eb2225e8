import type { Pool } from './wire.ts'

/** Names that clients may request, in the order of the pools. */
export const modelNames = (pools: readonly Pool[]): readonly string[] => [
  ...new Set(pools.flatMap(({ model, aliases, adapters = [] }) => [model, ...aliases, ...adapters])),
]
