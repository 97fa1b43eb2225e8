import type { PoolRoute } from './pool-route.ts'

/** Returns a function that makes a value once per pool. A pool of a new configuration is another pool. */
export function oncePerPool<Route extends Pick<PoolRoute, 'pool'>, Value extends object | number | null>(
  make: (route: Route) => Value,
): (route: Route) => Value {
  const known = new WeakMap<PoolRoute['pool'], Value>()
  return (route) => {
    let value = known.get(route.pool)
    if (value === undefined) known.set(route.pool, (value = make(route)))
    return value
  }
}
