/**
 * The package's main entry, independent of the runtime: the gateway as a fetch function over ports that the caller
 * supplies. `firstlight/node` and `firstlight/worker` supply the ports of the two runtimes.
 */
export { ConfigError } from './config/problem.ts'
export { parseConfig, parseConfigText } from './config/parse.ts'
export type { ParseOptions } from './config/parse-options.ts'
export type { Config } from './config.ts'
export { Failure, type FailureReason } from './failure.ts'
export { createGateway, type Gateway, type GatewayOptions, type RouteGroup } from './gateway.ts'
export type {
  AdmitResult,
  KvEventFeed,
  LocalState,
  PoolCosts,
  PoolDecisions,
  PoolOverview,
  PoolPort,
  PoolQueue,
  PoolRegistry,
  RegionDigestSource,
  RemoteState,
} from './ports/pool.ts'
export type { Lease } from './ports/lease.ts'
export type { Log } from './ports/log.ts'
export type { Origin } from './ports/origin.ts'
export type { Ports } from './ports.ts'
export type { RequestScope } from './ports/request-scope.ts'
export type { ServiceClient } from './ports/services.ts'
export type { SharedState } from './ports/shared-state.ts'
export type { Timers } from './ports/timers.ts'
