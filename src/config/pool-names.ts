import type { PoolSettings } from '../config.ts'

/** Names of a pool that clients may request: its model, aliases and adapters. */
export function modelNames({ model, aliases, adapters, engines }: PoolSettings): string[] {
  return [model, ...aliases, ...adapters, ...engines.flatMap(({ models }) => models ?? [])]
}
