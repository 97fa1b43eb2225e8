import { drainFailure } from '../../failure.ts'
import type { Ports } from '../../ports.ts'
import type { GatewayStatus } from '../gateway-status.ts'
import type { Middleware } from './middleware.ts'

/** Refuses new requests while the gateway drains. Running ones continue. */
export const refuseWhileDraining =
  (status: Pick<GatewayStatus, 'draining'>, { random }: Pick<Ports, 'random'>): Middleware =>
  (_, next) => {
    if (status.draining) throw drainFailure(random())
    return next()
  }
