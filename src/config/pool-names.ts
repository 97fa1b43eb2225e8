import type { PoolSettings } from '../config.ts'

/** Whether clients may request adapters of the pool. */
export const hasAdapters = ({
  adapters,
  reportsAdapters,
}: Pick<PoolSettings, 'adapters' | 'reportsAdapters'>): boolean => adapters.length > 0 || reportsAdapters

/** Names of a pool that clients may request: its model, aliases and adapters. */
export function modelNames({ model, aliases, adapters, engines }: PoolSettings): string[] {
  return [model, ...aliases, ...adapters, ...engines.flatMap(({ models }) => models ?? [])]
}
