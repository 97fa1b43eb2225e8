import type { Config } from '../../config.ts'
import type { KeyUsage } from '../../core/limits/key-usage.ts'
import type { Ports } from '../../ports.ts'
import { RepeatedRequests } from '../repeated-requests.ts'
import type { Middleware } from './middleware.ts'

interface RefuseRepeatedParts {
  readonly ports: Pick<Ports, 'now'>
  readonly usage: Pick<KeyUsage, 'add'>
}

/** Whether a pool refuses requests because of its load. */
export const refusesLoad = ({ clusters }: Pick<Config, 'clusters'>): boolean =>
  clusters.some(({ pools }) => pools.some(({ slo, queue }) => slo !== null || queue !== null))

/** Refuses a request that is repeated before the time in the Retry-After of its refusal. */
export function refuseRepeated(parts: RefuseRepeatedParts): Middleware {
  const repeated = new RepeatedRequests()
  return async (c, next) => {
    const inference = c.get('inference')
    const name = repeated.check(parts, inference)
    await next()
    const failure = c.get('failure')
    if (failure !== undefined) repeated.failed(parts, failure, inference, name)
  }
}
